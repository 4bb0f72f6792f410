"""The mmengine hook that makes training resilient."""

from collections.abc import Sequence
from typing import Any

from mmengine.hooks import LoggerHook
from mmengine.optim import OptimWrapper
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import nn

from .binary_hook import BinaryHook, has_epochs, optim_wrappers, unwrapped
from .resilient_gradient import ResilientGradient, fused_message

CHECKPOINT_KEY = 'rebnn_flip_windows'


@HOOKS.register_module()
class ReBNNHook(BinaryHook):
    """Carries ReBNN through an mmengine run: ``custom_hooks=[dict(type='ReBNNHook')]``.

    All that :class:`BinaryHook` does, and for ReBNN layers:

    - Around every optimizer step: the reconstruction term and the update of gamma
      (:class:`rebnn_mm.engine.ResilientGradient`).
    - Every ``interval`` iterations: the numbers of :meth:`ResilientGradient.statistics` under ``rebnn/``, into the log
      and every visualizer backend.

    Args:
        interval: iterations between two logged statistics; None takes the LoggerHook's.
        calibrate, schedule: see :class:`BinaryHook`.

    Raises:
        ValueError: the optimizer is one under which gamma would be wrong (fused with AMP, sharded parameters), or
            ``flip_window='epoch'`` is used with a loop that has no epochs.

    Example:
        >>> ReBNNHook(interval=10).interval
        10
    """

    def __init__(self, interval: int | None = None, calibrate: bool = True, schedule: str | None = None) -> None:
        super().__init__(calibrate, schedule)
        self.interval = interval
        self.resilient: ResilientGradient | None = None
        self._saved_windows: dict[str, Any] = {}

    def before_train(self, runner: Runner) -> None:
        """Check, initialise and install the optimizer hooks."""
        super().before_train(runner)
        if self.driver is None:
            return
        self.resilient = ResilientGradient(unwrapped(runner.model))
        if any(layer.quantizer.flip_window == 'epoch' for layer in self.resilient.layers) and not has_epochs(runner):
            raise ValueError(
                "ReBNNHook: flip_window='epoch' needs a train loop with epochs (train_cfg by_epoch=True); give a "
                'number of steps instead.'
            )
        for wrapper in optim_wrappers(runner):
            self.resilient.attach(wrapper.optimizer)
        self.resilient.load_state_dict(self._saved_windows)
        if self.interval is None:
            logger_hooks = [hook for hook in runner.hooks if isinstance(hook, LoggerHook)]
            self.interval = logger_hooks[0].interval if logger_hooks else 10

    def check(self, model: nn.Module, wrappers: Sequence[OptimWrapper]) -> None:
        """Refuse or warn about an optimizer that does not suit the method."""
        for wrapper in wrappers:
            fused = any(group.get('fused') for group in wrapper.optimizer.param_groups)
            if fused and hasattr(wrapper, 'loss_scaler'):
                raise ValueError(fused_message(wrapper.optimizer))
        super().check(model, wrappers)

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: dict[str, Any] | None = None
    ) -> None:
        """Write statistics for the LoggerHook."""
        if self.resilient is None or not self.every_n_train_iters(runner, self.interval or 10):
            return
        for name, value in self.resilient.statistics().items():
            runner.message_hub.update_scalar(f'train/rebnn/{name}', value)

    def after_train_epoch(self, runner: Runner) -> None:
        """Renew gamma where flips are counted per epoch."""
        if self.resilient is not None:
            self.resilient.close_epoch()

    def after_train(self, runner: Runner) -> None:
        """Take the optimizer hooks away."""
        super().after_train(runner)
        if self.resilient is not None:
            self.resilient.detach()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Save open flip windows; there are none with the default window of one step."""
        windows = self.resilient.state_dict() if self.resilient is not None else {}
        if windows:
            checkpoint[CHECKPOINT_KEY] = windows

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        """Keep open flip windows until training starts."""
        if getattr(runner, '_resume', False):
            self._saved_windows = checkpoint.get(CHECKPOINT_KEY, {})
