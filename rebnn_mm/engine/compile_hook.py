"""The mmengine hook that compiles the network for training."""

from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from .binary_hook import part_of, unwrap_model


@HOOKS.register_module()
class CompileHook(Hook):
    """Compiles a part of the model with ``torch.compile`` before training; evaluation stays as it is.

    With ``steps`` it also compiles what ReBNN's rule and the weight recorder do around ``optimizer.step``: hundreds of
    small operations, each of which has to be started on a GPU. There ``mode='reduce-overhead'`` lets CUDA graphs start
    the network at once; with both, a step of a small network takes half the time that it takes compiled
    (lab/reports/training_cost.md). On a CPU most of them has kernels of its own, and is faster without.

    mmengine's own ``compile`` option covers ``train_step`` with the optimizer in it, which PyTorch 2.13 does not
    compile together with hooks on ``optimizer.step``. Numbers differ from those without the hook by rounding only. It
    pays where all inputs are of one size, as mmdet's ``BatchFixedSizePad`` makes them: each new one is compiled again.

    Args:
        part: name of the submodule to compile; of a model with a teacher also ``'teacher.backbone'``.
        steps: whether what hooks do around a step is compiled, too; or arguments of ``torch.compile`` for it.
        options: keyword arguments of ``torch.nn.Module.compile`` for the part.

    Raises:
        RuntimeError: torch is older than 2.6.
        ValueError: the model has no such part.
    """

    # After the method's hook, which looks through the layers with a batch of its own before training.
    priority = 60

    def __init__(self, part: str = 'backbone', steps: bool | dict[str, Any] = False, **options: Any) -> None:
        self.part = part
        self.steps = steps
        self.options = options
        self._compiled, self._steps_due = False, False

    def before_train(self, runner: Runner) -> None:
        if not hasattr(torch.compiler, 'set_stance'):
            raise RuntimeError(
                f'CompileHook needs torch 2.6 or newer, this is {torch.__version__}: update torch, or take the '
                'hook out of custom_hooks.'
            )
        part_of(unwrap_model(runner.model), self.part, 'CompileHook').compile(**self.options)
        self._compiled, self._steps_due = True, self.steps is not False

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        due, self._steps_due = self._steps_due, False
        options = self.steps if isinstance(self.steps, dict) else {}
        for hook in runner.hooks if due else ():
            if hasattr(hook, 'compile_steps'):
                hook.compile_steps(**options)

    def before_val(self, runner: Runner) -> None:
        """Evaluate uncompiled: compiling once more would cost more than a small validation set gives back."""
        if self._compiled:
            torch.compiler.set_stance('force_eager')

    def after_val(self, runner: Runner) -> None:
        if self._compiled:
            torch.compiler.set_stance('default')

    before_test, after_test = before_val, after_val
