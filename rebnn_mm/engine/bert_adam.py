"""The Adam of BERT's original code."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from mmengine.registry import OPTIMIZERS
from torch.optim import Optimizer


@OPTIMIZERS.register_module()
class BertAdam(Optimizer):
    r"""AdamW without bias correction, behind gradient clipping per tensor, as BERT and BiBERT are trained.

    .. math::
        g \leftarrow g \min(1, c / \|g\|_2) \qquad
        m \leftarrow \beta_1 m + (1 - \beta_1) g \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2 \qquad
        w \leftarrow w - \eta \left( \frac{m}{\sqrt{v} + \epsilon} + \lambda w \right)

    Without bias correction the first steps are larger than Adam's, 3.2 times the rate at the first one; the schedule's
    warm-up holds them down. Each tensor is clipped by its own norm, before other step hooks: ReBNN's reconstruction
    term is added to the clipped gradient.

    Args:
        params: as in any optimizer.
        lr: :math:`\eta`.
        betas: :math:`\beta_1, \beta_2`.
        eps: :math:`\epsilon`.
        weight_decay: :math:`\lambda`. BERT has none on biases and norms: ``paramwise_cfg=dict(bias_decay_mult=0.0)``
            with ``ReBNNOptimWrapperConstructor``.
        clip_norm: :math:`c`, largest norm of one tensor's gradient; None for no clipping.

    Raises:
        ValueError: an argument out of its range.

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = BertAdam([weight], lr=0.1, weight_decay=0.0)
        >>> weight.grad = torch.tensor([3.0, -4.0])
        >>> _ = optimizer.step()
        >>> weight  # the step is lr * 0.1 / sqrt(0.001), whatever the gradient
        Parameter containing:
        tensor([0.6838, 1.3162], requires_grad=True)

    Source: google-research/bert, ``optimization.py``: "does not bias correct"; Kingma and Ba 2015; Loshchilov and
    Hutter 2019.
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
                raise ValueError(f'{type(self).__name__} needs {rule}.')
        defaults = dict(lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay, clip_norm=clip_norm)
        super().__init__(params, defaults)
        self.register_step_pre_hook(_clip)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if _clip not in self._optimizer_step_pre_hooks.values():  # they are not copied with an optimizer
            self.register_step_pre_hook(_clip)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
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


@torch.no_grad()
def _clip(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for group in optimizer.param_groups:
        grads = [parameter.grad for parameter in group['params'] if parameter.grad is not None]
        if group['clip_norm'] is None or not grads:
            continue
        norms = torch.stack(torch._foreach_norm(grads))
        # The small number is that of torch.nn.utils.clip_grad_norm_.
        factors = (group['clip_norm'] / (norms + 1e-6)).clamp(max=1)
        torch._foreach_mul_(grads, list(factors.unbind()))
