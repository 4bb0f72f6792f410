"""The mmengine hook that writes a trained text classifier for others to start from."""

from pathlib import Path
from typing import cast

from mmengine.dist import master_only
from mmengine.hooks import CheckpointHook, EMAHook, Hook
from mmengine.logging import print_log
from mmengine.registry import HOOKS
from mmengine.runner import CheckpointLoader, Runner

from .binary_hook import unwrap_model


@HOOKS.register_module()
class SavePretrainedHook(Hook):
    """Writes ``<work_dir>/<folder>`` after training: ``custom_hooks=[dict(type='SavePretrainedHook')]``.

    The directory is one of Hugging Face's, with the tokenizer, so another config can say
    ``encoder='work_dirs/<run>/pretrained'`` or take it as teacher. It holds the best weights where the CheckpointHook
    keeps them (``save_best``), else the last ones, of an EMAHook the averaged ones.

    Raises:
        TypeError: the model is no ``rebnn_mm.TextClassifier``.
    """

    def __init__(self, folder: str = 'pretrained') -> None:
        self.folder = folder

    def before_train(self, runner: Runner) -> None:
        """Refuse a model that cannot be written, before it has been trained for hours."""
        from ..models.language import TextClassifier

        model = unwrap_model(runner.model)
        if not isinstance(model, TextClassifier):
            raise TypeError(
                f'SavePretrainedHook: writes a rebnn_mm.TextClassifier, but the model is a '
                f'{type(model).__name__}. Remove the hook from custom_hooks.'
            )

    @master_only
    def after_train(self, runner: Runner) -> None:
        from ..models.language import TextClassifier, save_pretrained

        model = cast(TextClassifier, unwrap_model(runner.model))
        directory = Path(runner.work_dir, self.folder)
        best = _best_checkpoint(runner)
        if best is None:
            averages = [hook for hook in runner.hooks if isinstance(hook, EMAHook)]
            for hook in averages:
                hook.before_test_epoch(runner)
            save_pretrained(model, str(directory))
            for hook in averages:
                hook.after_test_epoch(runner)
        else:
            last = {key: value.clone() for key, value in model.state_dict().items()}
            model.load_state_dict(CheckpointLoader.load_checkpoint(best, map_location='cpu')['state_dict'])
            save_pretrained(model, str(directory))
            model.load_state_dict(last)
        print_log(f'{directory}: wrote {"the last weights" if best is None else best}', logger='current')


def _best_checkpoint(runner: Runner) -> str | None:
    """The best checkpoint by the first rule of ``save_best``, if there is one."""
    for hook in runner.hooks:
        if isinstance(hook, CheckpointHook):
            by_rule = getattr(hook, 'best_ckpt_path_dict', {})
            best = getattr(hook, 'best_ckpt_path', None) or next(iter(by_rule.values()), None)
            if best and Path(best).is_file():
                return str(best)
    return None
