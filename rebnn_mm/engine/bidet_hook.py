"""The mmengine hook that decides when BiDet's losses start."""

import logging
from typing import Any

from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..errors import RebnnError
from ..models.losses import BiDetLoss
from .binary_hook import has_epochs

CHECKPOINT_KEY = 'bidet_losses'


@HOOKS.register_module()
class BiDetLossHook(Hook):
    """Switches the losses of every :class:`BiDetLoss` in the model on: ``custom_hooks=[dict(type='BiDetLossHook')]``.

    BiDet trains with the detection losses alone until the learning rate first decays, and adds its own from then on.
    Without ``start`` the hook compares the learning rate of each step with the highest one so far: by default a step
    schedule switches at its first step, a cosine or a linear one in the middle of its way down. A resumed run goes on
    as it stood; a run that only loads weights (``load_from``) begins without the losses.

    Args:
        decay: the losses start when the learning rate is at most this share of the highest one so far.
        start: epoch or iteration, counted from 0, at whose begin the losses start; None waits for the decay. 0 trains
            with them throughout.
        by_epoch: whether ``start`` counts epochs.

    Raises:
        ValueError: ``decay`` is not between 0 and 1, ``start`` is negative, or it counts epochs where there are none.

    Source: the released code of BiDet (Wang et al., CVPR 2020).
    """

    def __init__(self, decay: float = 0.5, start: int | None = None, by_epoch: bool = True) -> None:
        if not 0 < decay < 1:
            raise RebnnError(f'BiDetLossHook: decay={decay} must be between 0 and 1: a share of the highest rate.')
        if start is not None and start < 0:
            raise RebnnError(f'BiDetLossHook: start={start} must be at least 0; None waits for the learning rate.')
        self.decay = decay
        self.start = start
        self.by_epoch = by_epoch
        self.active = False
        self.highest = 0.0
        self._losses: list[BiDetLoss] = []

    def before_train(self, runner: Runner) -> None:
        if self.start is not None and self.by_epoch and not has_epochs(runner):
            raise RebnnError(
                f'BiDetLossHook: start={self.start} counts epochs, and this train loop has none. Use by_epoch=False '
                'and count iterations.'
            )
        if not runner.iter:  # the hook may have been in another training before
            self.active, self.highest = False, 0.0
        self._losses = [module for module in runner.model.modules() if isinstance(module, BiDetLoss)]
        if not self._losses:
            print_log(
                'BiDetLossHook: the model has no BiDetLoss. Use rebnn_mm.BiDetRPNHead and rebnn_mm.BiDetRoIHead, or '
                'rebnn_mm.BiDetSSDHead, or remove the hook.',
                logger='current',
                level=logging.WARNING,
            )
        for loss in self._losses:
            loss.active = self.active

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        if self.active:
            return
        rate = max(values[0] for values in runner.optim_wrapper.get_lr().values())
        self.highest = max(self.highest, rate)
        if self.start is None:
            # A factor of 0.5 in float arithmetic may miss one half by a rounding.
            begins = rate <= self.decay * self.highest * (1 + 1e-6)
            reason = f'the learning rate fell from {self.highest:.3g} to {rate:.3g}'
        else:
            begins = (runner.epoch if self.by_epoch else runner.iter) >= self.start
            reason = f'start={self.start}'
        if begins:
            self.active = True
            for loss in self._losses:
                loss.active = True
            heads = '1 head' if len(self._losses) == 1 else f'{len(self._losses)} heads'
            print_log(
                f'BiDetLossHook: losses switched on at iteration {runner.iter} (epoch {runner.epoch}) in {heads}: '
                f'{reason}.',
                logger='current',
            )

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        checkpoint[CHECKPOINT_KEY] = dict(active=self.active, highest=self.highest)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        saved = checkpoint.get(CHECKPOINT_KEY)
        if saved is not None and getattr(runner, '_resume', False):
            self.active, self.highest = saved['active'], saved['highest']
