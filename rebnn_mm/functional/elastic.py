"""BiT's elastic binarisation: values whose distance is learned."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .sign import sign


class _ElasticSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(x, alpha)
        return sign(x) * alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, alpha = ctx.saved_tensors
        grad_alpha = (grad * sign(x)).sum() / x.numel() ** 0.5
        return grad * (x.abs() <= alpha), grad_alpha.view_as(alpha)


def elastic_sign(x: Tensor, alpha: Tensor) -> Tensor:
    r"""Sign times a learned scale.

    .. math::
        y = \alpha \, sign(x)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} \, 1_{|x| \le \alpha},
        \quad
        \frac{\partial L}{\partial \alpha} = \frac{1}{\sqrt{n}} \sum \frac{\partial L}{\partial y} \, sign(x)

    The scale's gradient is divided by the root of the number n of values, as in learned step size quantization.

    Args:
        x: any shape.
        alpha: scalar, positive.

    Source: Liu et al. 2022 (BiT), elastic binarisation to {-1, 1}; the factor of the scale's gradient is the released
    code's.

    Example:
        >>> x = torch.tensor([-2.0, -0.5, 0.0, 0.5], requires_grad=True)
        >>> alpha = torch.tensor(0.8, requires_grad=True)
        >>> y = elastic_sign(x, alpha)
        >>> y[1:].sum().backward()
        >>> y.detach(), x.grad, alpha.grad
        (tensor([-0.8000, -0.8000,  0.8000,  0.8000]), tensor([0., 1., 1., 1.]), tensor(0.5000))
    """
    return _ElasticSign.apply(x, alpha)


class _ElasticLevels(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, low: int, high: int) -> Tensor:
        ctx.save_for_backward(x, alpha)
        ctx.range = low, high
        return (x / alpha).round_().clamp_(low, high) * alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, alpha = ctx.saved_tensors
        low, high = ctx.range
        ratio = x / alpha
        inside = (ratio >= low) & (ratio <= high)
        slope = ratio.round().clamp_(low, high) - ratio * inside
        grad_alpha = (grad * slope).sum() / (x.numel() * high) ** 0.5
        return grad * inside, grad_alpha.view_as(alpha), None, None


def elastic_levels(x: Tensor, alpha: Tensor, low: int = 0, high: int = 1) -> Tensor:
    r"""The nearest whole multiple of a learned scale, between two of them.

    .. math::
        y = \alpha \, clamp\left(round\left(\frac{x}{\alpha}\right), l, h\right)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} \, 1_{l \le x / \alpha \le h},
        \quad
        \frac{\partial y}{\partial \alpha} = \frac{1}{\sqrt{n h}} \begin{cases}
            l & x / \alpha < l \\ round(x / \alpha) - x / \alpha & l \le x / \alpha \le h \\ h & x / \alpha > h
        \end{cases}

    With l = 0 and h = 1 it is the step to 0 and alpha at half of alpha. n is the number of values.

    Args:
        x: any shape.
        alpha: scalar, positive.
        low: l.
        high: h, at least 1.

    Source: Liu et al. 2022 (BiT), elastic binarisation to {0, 1} and its form of more bits; Esser et al. 2020 (learned
    step size quantization).

    Example:
        >>> x = torch.tensor([-1.0, 0.25, 0.75, 2.0], requires_grad=True)
        >>> alpha = torch.tensor(1.0, requires_grad=True)
        >>> y = elastic_levels(x, alpha)
        >>> y.sum().backward()
        >>> y.abs().detach(), x.grad, alpha.grad
        (tensor([0., 0., 1., 1.]), tensor([0., 1., 1., 0.]), tensor(0.5000))
    """
    return _ElasticLevels.apply(x, alpha, low, high)
