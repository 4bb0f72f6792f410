"""Uniform quantization to k bits within a range."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def symmetric_codes(x: Tensor, limit: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    r"""Integers and their factor, symmetric around zero.

    .. math::
        n = clamp\left(round\left(\frac{x}{s}\right), -T, T\right), \quad
        s = \frac{limit}{T}, \quad T = 2^{k - 1} - 1

    Two bits give -1, 0 and 1.

    Args:
        x: any shape.
        limit: the largest magnitude that is represented; broadcasts over x.
        bits: k, at least 2.

    Example:
        >>> symmetric_codes(torch.tensor([-3.0, 0.4, 1.2]), torch.tensor(2.0), bits=3)
        (tensor([-3.,  1.,  2.]), tensor(0.6667))
    """
    top = 2 ** (bits - 1) - 1
    factor = (limit / top).clamp(min=torch.finfo(x.dtype).tiny)
    return (x / factor).round_().clamp_(-top, top), factor


class _SymmetricRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: Tensor, bits: int, clip: float | None) -> Tensor:
        ctx.clip = clip
        if clip is not None:
            ctx.save_for_backward(x)
        codes, factor = symmetric_codes(x, limit, bits)
        return codes * factor

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        if ctx.clip is not None:
            (x,) = ctx.saved_tensors
            grad = grad * (x.abs() < ctx.clip)
        return grad, None, None, None


def symmetric_round(x: Tensor, limit: Tensor, bits: int, clip: float | None = None) -> Tensor:
    r"""The nearest level of :func:`symmetric_codes`, with straight-through gradient.

    .. math::
        \hat x = s n
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial \hat x} \, 1_{|x| < clip}

    Args:
        x: any shape.
        limit: the largest magnitude that is represented, a constant in the backward; broadcasts over x.
        bits: k, at least 2.
        clip: magnitude from which on nothing gets a gradient; None for a gradient everywhere.

    Source: Zafrir et al. 2019 (Q8BERT); with a clip, Zhang et al. 2020 (TernaryBERT), as the released code of each
    computes it.

    Example:
        >>> x = torch.tensor([-3.0, 0.4, 1.2], requires_grad=True)
        >>> y = symmetric_round(x, torch.tensor(1.2), bits=2, clip=2.5)
        >>> y.sum().backward()
        >>> y.detach(), x.grad
        (tensor([-1.2000,  0.0000,  1.2000]), tensor([0., 1., 1.]))
    """
    return _SymmetricRound.apply(x, limit, bits, clip)


class _GroupedRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, groups: int, bits: int) -> Tensor:
        rows = weight.reshape(groups, -1)
        low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)
        step = ((high - low) / (2**bits - 1)).clamp(min=torch.finfo(weight.dtype).tiny)
        return (((rows - low) / step).round_() * step + low).view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None


def grouped_round(weight: Tensor, groups: int, bits: int) -> Tensor:
    r"""The nearest of :math:`2^k` even levels between the least and the largest weight of a group of channels.

    .. math::
        \hat w = l_g + s_g \, round\left(\frac{w - l_g}{s_g}\right), \quad
        s_g = \frac{h_g - l_g}{2^k - 1}
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}

    A group g is a run of neighbouring channels; :math:`l_g` and :math:`h_g` are its least and largest weight.

    Args:
        weight: latent weight, shape (C_out, ...).
        groups: number of groups; divides C_out.
        bits: k.

    Source: Shen et al. 2020 (Q-BERT), group-wise quantization.

    Example:
        >>> grouped_round(torch.tensor([[0.0, 1.0, 3.0], [-2.0, 0.0, 1.0]]), groups=2, bits=1)
        tensor([[ 0.,  0.,  3.],
                [-2.,  1.,  1.]])
    """
    return _GroupedRound.apply(weight, groups, bits)
