"""Adam and learning-rate schedule of BERT's original code."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from mmengine.optim.scheduler.lr_scheduler import LRSchedulerMixin
from mmengine.optim.scheduler.param_scheduler import INF, _ParamScheduler
from mmengine.registry import OPTIMIZERS, PARAM_SCHEDULERS
from torch.optim import Optimizer

from rebnn_mm.errors import RebnnError

from .optimizer_step import around_step


@OPTIMIZERS.register_module()
class BertAdam(Optimizer):
    r"""AdamW without bias correction, after gradient clipping per tensor, as BERT and BiBERT are trained.

    .. math::
        g \leftarrow g \min(1, c / \|g\|_2) \qquad
        m \leftarrow \beta_1 m + (1 - \beta_1) g \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \qquad
        w \leftarrow w - \eta \left( \frac{m}{\sqrt{v} + \epsilon} + \lambda w \right)

    Without bias correction the first steps are larger than Adam's, 3.2 times the rate at the first one; the schedule's
    warm-up holds them down. Each tensor is clipped by its own norm, before other step hooks: ReBNN's reconstruction
    term is added to the clipped gradient.

    Args:
        betas: :math:`\beta_1, \beta_2`.
        weight_decay: :math:`\lambda`. BERT has none on biases and norms: ``paramwise_cfg=dict(bias_decay_mult=0.0)``
            with ``BinaryOptimWrapperConstructor``.
        clip_norm: :math:`c`, largest norm of one tensor's gradient; None for no clipping.

    Raises:
        ValueError: an argument out of its range.

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = BertAdam([weight], lr=0.1, weight_decay=0.0)
        >>> weight.grad = torch.tensor([3.0, -4.0])
        >>> _ = optimizer.step()
        >>> weight.data  # the step is lr * 0.1 / sqrt(0.001), whatever the gradient
        tensor([0.6838, 1.3162])

    Source: google-research/bert, ``optimization.py``; Kingma and Ba 2015; Loshchilov and Hutter 2019.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        clip_norm: float | None = 1.0,
    ) -> None:
        ranges = {
            'lr >= 0': lr >= 0,
            'betas in [0, 1)': all(0 <= beta < 1 for beta in betas),
            'eps > 0': eps > 0,
            'weight_decay >= 0': weight_decay >= 0,
            'clip_norm > 0 or None': clip_norm is None or clip_norm > 0,
        }
        for rule, kept in ranges.items():
            if not kept:
                raise RebnnError(f'{type(self).__name__} needs {rule}.')
        defaults = dict(lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, clip_norm=clip_norm)
        super().__init__(params, defaults)
        self._clip_before_steps()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not self._optimizer_step_pre_hooks:  # they are not copied with an optimizer
            self._clip_before_steps()

    def _clip_before_steps(self) -> None:
        around_step(self, self._clip, lambda: None, type(self).__name__)

    def _clip(self) -> None:
        for group in self.param_groups:
            grads = [parameter.grad for parameter in group['params'] if parameter.grad is not None]
            if group['clip_norm'] is None or not grads:
                continue
            norms = torch.stack(torch._foreach_norm(grads))
            # The small number is that of torch.nn.utils.clip_grad_norm_.
            factors = (group['clip_norm'] / (norms + 1e-6)).clamp(max=1)
            torch._foreach_mul_(grads, list(factors.unbind()))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [parameter for parameter in group['params'] if parameter.grad is not None]
            if not params:
                continue
            grads = [parameter.grad for parameter in params]
            for parameter in params:
                if not self.state[parameter]:
                    self.state[parameter]['exp_avg'] = torch.zeros_like(parameter)
                    self.state[parameter]['exp_avg_sq'] = torch.zeros_like(parameter)
            means = [self.state[parameter]['exp_avg'] for parameter in params]
            squares = [self.state[parameter]['exp_avg_sq'] for parameter in params]
            beta1, beta2 = group['betas']
            torch._foreach_lerp_(means, grads, 1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
            denominators = torch._foreach_sqrt(squares)
            torch._foreach_add_(denominators, group['eps'])
            torch._foreach_mul_(params, 1 - group['lr'] * group['weight_decay'])
            torch._foreach_addcdiv_(params, means, denominators, -group['lr'])
        return loss


@PARAM_SCHEDULERS.register_module()
class WarmupLinearLR(LRSchedulerMixin, _ParamScheduler):
    r"""Rises from zero in the first part of training and falls to zero by its end, both linearly, at every step.

    .. math::
        \eta_t = \eta \min\left(\frac{t}{r T}, \frac{T - t}{(1 - r) T}\right), \qquad t = 0, \dots, T - 1

    mmengine's ``LinearLR`` needs the warm-up in steps; here it is a share of ``end``, by default ``max_iters``, so
    that ``--cfg-options train_cfg.max_iters=...`` changes the whole schedule.

    Args:
        warmup: r, in [0, 1).
        end: T, steps.
        by_epoch: has to be False, since steps are iterations. mmengine takes what a config leaves out for True.
        kwargs: mmengine's ``last_step`` and ``verbose``.

    Raises:
        ValueError: ``warmup`` out of its range, no ``end``, or ``by_epoch=True``.

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = WarmupLinearLR(optimizer, warmup=0.25, end=8, by_epoch=False)
        >>> for _ in range(8):
        ...     print(round(scheduler.get_last_value()[0], 3), end=' '); _ = optimizer.step(); scheduler.step()
        0.0 0.5 1.0 0.833 0.667 0.5 0.333 0.167

    Source: google-research/bert, ``optimization.py``.
    """

    def __init__(self, optimizer: Any, warmup: float = 0.1, end: int = INF, by_epoch: bool = True, **kwargs: Any):
        if not 0 <= warmup < 1:
            raise RebnnError(f'{type(self).__name__}: warmup={warmup} must be a share of training in [0, 1).')
        if by_epoch or end >= INF:
            raise RebnnError(
                f'{type(self).__name__} counts iterations: set by_epoch=False, and end if training has no max_iters.'
            )
        self.warmup = warmup
        kwargs.pop('epoch_length', None)
        super().__init__(optimizer, end=end, by_epoch=by_epoch, **kwargs)

    def _get_value(self) -> list[float]:
        done = self.last_step / self.end
        factor = done / self.warmup if done < self.warmup else (1 - done) / (1 - self.warmup)
        return [value * factor for value in self.base_values]
