"""FDA-BNN's estimator of the sign's derivative: a truncated Fourier series."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .sign import sign

OMEGA = 0.1
"""Base frequency: the square wave equals the sign up to half a period, pi / 0.1 = 31.4."""


class _SignFourier(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, highest: Tensor) -> Tensor:
        ctx.save_for_backward(x, highest)
        return sign(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, highest = ctx.saved_tensors
        # sum_{i=0}^n cos((2i+1) a) = sin(2(n+1) a) / (2 sin a): two sines in place of up to nineteen cosines.
        angle, count = OMEGA * x, 2 * (highest + 1)
        series = (angle * count).sin_().div_(angle.sin())
        series = torch.where(angle == 0, count.to(series.dtype), series).mul_(2 * OMEGA / math.pi)
        return torch.where(x.abs() <= 1, series.mul_(grad), 0), None


def sign_fourier(x: Tensor, highest: Tensor) -> Tensor:
    r"""Two-valued sign with the derivative of its truncated sine series.

    The square wave of period :math:`2 \pi / \omega` is
    :math:`\frac{4}{\pi} \sum_i \frac{\sin((2i+1) \omega x)}{2i+1}`; its first n + 1 terms, differentiated one by one,
    give

    .. math::
        b = \begin{cases} +1 & x \ge 0 \\ -1 & x < 0 \end{cases}
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial b} \, 1_{|x| \le 1} \,
            \frac{4 \omega}{\pi} \sum_{i=0}^{n} \cos((2i + 1) \omega x), \quad \omega = 0.1

    The paper prints no range. The series ripples around 0 beyond its first zero at :math:`\pi / (2 (n + 1) \omega)`,
    which is 1.57 for n = 9 and 0.83 for n = 18; the gradient is therefore cut at 1, as in the public training code.

    Args:
        x: any shape; NaN gives +1.
        highest: n, a scalar tensor.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> x = torch.tensor([0., 0.5, 2.], requires_grad=True)
        >>> sign_fourier(x, torch.tensor(9)).sum().backward()
        >>> x.grad
        tensor([1.2732, 1.0718, 0.0000])
    """
    return _SignFourier.apply(x, highest)


def fourier_terms(done: float, start: int = 9, end: int = 18) -> int:
    r"""The schedule of n, :math:`n_0 + p (n_1 - n_0)` rounded to the nearest integer.

    Args:
        done: p, the share of training that is finished.
        start: value at p = 0.
        end: value at p = 1.

    Source: Xu et al. 2021, growing number of terms.

    Example:
        >>> [fourier_terms(p) for p in (0.0, 0.5, 1.0)]
        [9, 14, 18]
    """
    return round(start + done * (end - start))


def noise_factor(done: float) -> float:
    r"""The schedule of the noise adaptation's factor, from 0.1 to 0.

    .. math:: \lambda = 0.05 (1 + \cos \pi p)

    Args:
        done: p, the share of training that is finished.

    Source: Xu et al. 2021, noise adaptation module.

    Example:
        >>> [round(noise_factor(p), 4) for p in (0.0, 0.5, 1.0)]
        [0.1, 0.05, 0.0]
    """
    return 0.05 * (1 + math.cos(math.pi * done))
