"""The learning rate of BERT's fine-tuning."""

from typing import Any

from mmengine.optim.scheduler.lr_scheduler import LRSchedulerMixin
from mmengine.optim.scheduler.param_scheduler import INF, _ParamScheduler
from mmengine.registry import PARAM_SCHEDULERS


@PARAM_SCHEDULERS.register_module()
class WarmupLinearLR(LRSchedulerMixin, _ParamScheduler):
    r"""Rises from zero in the first part of training and falls to zero by its end, both linearly, at every step.

    .. math::
        \eta_t = \eta \min\left(\frac{t}{r T}, \frac{T - t}{(1 - r) T}\right), \qquad t = 0, \dots, T - 1

    The ``LinearLR`` of mmengine needs the warm-up in steps. Here it is a share of ``end``, which mmengine sets to
    ``train_cfg.max_iters`` where the config leaves it out, so that ``--cfg-options train_cfg.max_iters=...`` changes
    the whole schedule.

    Args:
        optimizer: filled in by mmengine.
        warmup: r, in [0, 1).
        end: T, steps.
        kwargs: mmengine's ``last_step`` and ``verbose``. Steps are counted in iterations: ``by_epoch=False``.

    Raises:
        ValueError: ``warmup`` out of its range, no ``end``, or ``by_epoch=True``.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = WarmupLinearLR(optimizer, warmup=0.25, end=8)
        >>> rates = []
        >>> for _ in range(8):
        ...     rates.append(round(optimizer.param_groups[0]['lr'], 3)); _ = optimizer.step(); scheduler.step()
        >>> rates
        [0.0, 0.5, 1.0, 0.833, 0.667, 0.5, 0.333, 0.167]

    Source: google-research/bert, ``optimization.py``.
    """

    def __init__(self, optimizer: Any, warmup: float = 0.1, end: int = INF, by_epoch: bool = False, **kwargs: Any):
        if not 0 <= warmup < 1:
            raise ValueError(f'{type(self).__name__}: warmup={warmup} must be a share of training in [0, 1).')
        if by_epoch or end >= INF:
            raise ValueError(
                f'{type(self).__name__} counts iterations: set by_epoch=False, and end if training has no max_iters.'
            )
        self.warmup = warmup
        kwargs.pop('epoch_length', None)
        super().__init__(optimizer, end=end, by_epoch=by_epoch, **kwargs)

    def _get_value(self) -> list[float]:
        done = self.last_step / self.end
        factor = done / self.warmup if done < self.warmup else (1 - done) / (1 - self.warmup)
        return [value * factor for value in self.base_values]
