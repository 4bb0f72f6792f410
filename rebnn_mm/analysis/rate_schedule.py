"""The learning rate of a config over its whole training."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from mmengine.optim import _ParamScheduler
from mmengine.registry import PARAM_SCHEDULERS

from rebnn_mm.errors import RebnnError

NOTHING = 1e-4
"""Of the highest rate. mmengine's schedulers make one move less than they have steps, so cosines end above zero."""


class RateSchedule(NamedTuple):
    """How long a config trains, and at what rates, in multiples of the optimizer's."""

    steps: int  # iterations of the whole training
    highest: float
    mean: float  # over all iterations
    moving: int | None = None  # iterations until the rate stays at next to nothing; None where it does not

    @property
    def full_steps(self) -> float:
        """So many iterations at the highest rate have the same sum of rates."""
        return self.steps * self.mean / self.highest


def rate_schedule(
    schedulers: Any, lr: float, steps: int, epoch_length: int = 1, epochs: int | None = None
) -> RateSchedule:
    """Go through the whole schedule with mmengine's own schedulers, without a network.

    A scheduler that waits for a score (``ReduceOnPlateauLR``) stays where it begins.
    """
    if schedulers is None:
        return RateSchedule(steps, 1.0, 1.0)
    several = list(schedulers) if isinstance(schedulers, Sequence) else [schedulers]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr, momentum=0.9)
    (group,) = optimizer.param_groups
    built = [
        PARAM_SCHEDULERS.build(
            {'end': epochs if entry.get('by_epoch', True) and epochs else steps, **copy.deepcopy(entry)},
            default_args=dict(optimizer=optimizer, epoch_length=epoch_length),
        )
        for entry in several
    ]
    moving = [scheduler for scheduler in built if isinstance(scheduler, _ParamScheduler)]
    by_step = [scheduler for scheduler in moving if not scheduler.by_epoch]
    by_epoch = [scheduler for scheduler in moving if scheduler.by_epoch and epochs]
    optimizer.step()  # mmengine warns where schedulers move before the optimizer
    total = highest = 0.0
    last = 0
    for step in range(1, steps + 1):
        rate = group['lr']
        total += rate
        highest = max(highest, rate)
        last = step if rate > NOTHING * highest else last
        for scheduler in by_step:
            scheduler.step()
        if step % epoch_length == 0:
            for scheduler in by_epoch:
                scheduler.step()
    if not highest:
        raise RebnnError(f'param_scheduler: the rate is 0 in all {steps} iterations, so no sign can move. Repair it.')
    return RateSchedule(steps, highest / lr, total / steps / lr, last if last < steps else None)
