"""The mmengine hook that ends a training whose loss is lost, and says what to try."""

from __future__ import annotations

import math
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..errors import RebnnError
from .binary_hook import optim_wrappers

GROWTH, HIGH = 1000, 1e4
"""A loss explodes where it is so many times the first one, and this high."""


@HOOKS.register_module()
class LossCheckHook(Hook):
    """Ends a training whose loss is not a number or explodes, before a checkpoint of it is saved.

    It looks at the loss every ``interval`` iterations and at the end of an epoch.

    Raises:
        RebnnError: the loss is not a number, or has exploded; the sentence says what to try.
    """

    def __init__(self, interval: int = 10) -> None:
        self.interval = interval
        self.first: float | None = None

    def before_train(self, runner: Runner) -> None:
        self.first = None

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: dict[str, Any] | None = None
    ) -> None:
        due = self.every_n_train_iters(runner, self.interval) or self.end_of_epoch(runner.train_dataloader, batch_idx)
        if not due or not outputs or 'loss' not in outputs:
            return
        values = {key: float(torch.as_tensor(value).detach().sum()) for key, value in outputs.items()}
        loss = values['loss']
        self.first = loss if self.first is None else self.first
        if math.isfinite(loss) and not (loss > HIGH and loss > GROWTH * abs(self.first)):
            return
        parts = [key for key, value in values.items() if key != 'loss' and not math.isfinite(value)]
        named = f' ({", ".join(parts)})' if parts else ''
        raise RebnnError(f'the loss is {loss:.3g} at step {runner.iter + 1}{named}. {remedy(runner)}')


def remedy(runner: Runner) -> str:
    """Say what to try against a loss that is not a number: what the training does not do yet, and a lower rate."""
    wrapper = optim_wrappers(runner)[0]
    rate = wrapper.optimizer.defaults['lr']
    tries = [f'a lower rate (--cfg-options optim_wrapper.optimizer.lr={rate / 10:.2g})']
    if not wrapper.clip_grad_kwargs:
        tries.append('clipped gradients (optim_wrapper.clip_grad.max_norm=35)')
    if 'Amp' in type(wrapper).__name__ or 'Bfloat16' in type(wrapper).__name__:
        tries.append('float32 in place of --amp')
    last = runner.message_hub.runtime_info.get('last_ckpt')
    start = f'; the last good checkpoint is {last}' if last else ''
    return f'Try {", or ".join(tries)}{start}.'
