"""BiT's elastic binarisation: two values whose distance is learned."""

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


class _ElasticStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(x, alpha)
        return (x > alpha / 2).to(x.dtype) * alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, alpha = ctx.saved_tensors
        ratio = x / alpha
        inside = (ratio >= 0) & (ratio <= 1)
        slope = (ratio > 0.5).to(x.dtype) - ratio * inside
        return grad * inside, ((grad * slope).sum() / x.numel() ** 0.5).view_as(alpha)


def elastic_step(x: Tensor, alpha: Tensor) -> Tensor:
    r"""A learned scale where the input is above half of it, 0 elsewhere.

    .. math::
        y = \alpha \, round\left(clamp\left(\frac{x}{\alpha}, 0, 1\right)\right)
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial y} \, 1_{0 \le x \le \alpha},
        \quad
        \frac{\partial y}{\partial \alpha} = \begin{cases}
            0 & x < 0 \\ -x / \alpha & 0 \le x \le \alpha / 2 \\ 1 - x / \alpha & \alpha / 2 < x \le \alpha \\
            1 & x > \alpha
        \end{cases}

    The scale's gradient is divided by the root of the number of values, as in :func:`elastic_sign`.

    Args:
        x: any shape.
        alpha: scalar, positive.

    Source: Liu et al. 2022 (BiT), elastic binarisation to {0, 1}.

    Example:
        >>> x = torch.tensor([-1.0, 0.25, 0.75, 2.0], requires_grad=True)
        >>> alpha = torch.tensor(1.0, requires_grad=True)
        >>> y = elastic_step(x, alpha)
        >>> y.sum().backward()
        >>> y.detach(), x.grad, alpha.grad
        (tensor([0., 0., 1., 1.]), tensor([0., 1., 1., 0.]), tensor(0.5000))
    """
    return _ElasticStep.apply(x, alpha)
