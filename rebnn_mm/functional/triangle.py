"""RBNN's estimator of the sign's derivative: a triangle that narrows during training."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .sign import sign


class _SignTriangle(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sharpness: Tensor) -> Tensor:
        ctx.save_for_backward(x, sharpness)
        return sign(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, t = ctx.saved_tensors
        k = (1 / t).clamp(min=1)
        return x.abs().mul_(-k * t.square()).add_(k * t * math.sqrt(2)).clamp_(min=0).mul_(grad), None


def sign_triangle(x: Tensor, sharpness: Tensor) -> Tensor:
    r"""Two-valued sign with a triangle of adjustable width as its derivative.

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, k \max(\sqrt 2 \, t - t^2 |x|, 0),
        \quad k = \max(1 / t, 1)

    The triangle ends at :math:`|x| = \sqrt 2 / t` and has area 2 for t >= 1. A small t lets almost every value move.

    Args:
        x: any shape; NaN gives +1.
        sharpness: t, a positive scalar tensor.

    Source: Lin et al. 2020 (RBNN), training-aware approximation of the sign.

    Example:
        >>> x = torch.tensor([-1., 0., 0.25], requires_grad=True)
        >>> sign_triangle(x, torch.tensor(2.)).sum().backward()
        >>> x.grad
        tensor([0.0000, 2.8284, 1.8284])
    """
    return _SignTriangle.apply(x, sharpness)


def triangle_sharpness(done: float, start: float = 1e-2, end: float = 10.0) -> float:
    r"""The schedule of t, even steps on a logarithmic scale.

    .. math:: \log t = (1 - p) \log t_0 + p \log t_1

    Args:
        done: p, the share of training that is finished.
        start: value at p = 0.
        end: value at p = 1.

    Source: Lin et al. 2020.

    Example:
        >>> [round(triangle_sharpness(p), 4) for p in (0.0, 0.5, 1.0)]
        [0.01, 0.3162, 10.0]
    """
    return start * (end / start) ** done
