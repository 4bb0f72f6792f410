"""The binarised weight with a learnable scaling factor: forward and the exact backward."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .channel import channel_dims, per_channel
from .sign import sign

RELEASED_CODE_BIN = 0.02
"""The constant inside the scaling factor of the paper's released code, which its weight gradient leaves out."""


def zero_outside_one_(grad: Tensor, weight: Tensor) -> Tensor:
    """Multiply a gradient in place by 1[|w| <= 1], the straight-through mask.

    Args:
        grad: gradient of the weight, changed in place.
        weight: latent weight, of the same shape.

    Example:
        >>> zero_outside_one_(torch.ones(4), torch.tensor([-1.5, -1., 1., 1.5]))
        tensor([0., 1., 1., 0.])
    """
    # One pass instead of two comparisons and a product. Hardtanh's gradient ends at its bounds, so they are the next
    # numbers beyond one. Without a tensor in between, which torch.compile could not follow.
    beyond = 1 + torch.finfo(weight.dtype).eps
    return torch.ops.aten.hardtanh_backward.grad_input(grad, weight, -beyond, beyond, grad_input=grad)


class _ScaledSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, alpha: Tensor, mask: bool) -> Tensor:
        ctx.save_for_backward(weight, alpha)
        ctx.mask = mask
        return sign(weight).mul_(per_channel(alpha, weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, alpha = ctx.saved_tensors
        grad_weight = grad_alpha = None
        if ctx.needs_input_grad[0]:
            grad_weight = grad * per_channel(alpha, weight)
            if ctx.mask:
                zero_outside_one_(grad_weight, weight)
        if ctx.needs_input_grad[1]:
            grad_alpha = (grad * sign(weight)).sum(dim=channel_dims(weight))
        return grad_weight, grad_alpha, None


class _ScaledSignReleased(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(weight, alpha)
        return sign(weight).mul_(per_channel(alpha, weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weight, alpha = ctx.saved_tensors
        grad_weight = grad * per_channel(alpha / RELEASED_CODE_BIN, weight)
        return grad_weight, (grad * weight).sum(dim=channel_dims(weight))


def scaled_sign(weight: Tensor, alpha: Tensor, mask: bool = True) -> Tensor:
    r"""Binarised weight :math:`\hat w = \alpha \circ sign(w)` with the paper's gradients.

    With :math:`G = \partial L / \partial \hat w`:

    .. math::
        \frac{\partial L}{\partial w_{ij}} = \alpha_i G_{ij} 1_{|w_{ij}| \le 1}
        \qquad
        \frac{\partial L}{\partial \alpha_i} = \sum_j G_{ij} \, sign(w_{ij})

    Args:
        weight: latent weight, shape (C_out, ...).
        alpha: scaling factor, shape (C_out,), positive.
        mask: False leaves out the factor 1[|w| <= 1], so that all of G can be read from the summed gradient at the
            optimizer step; whoever asks for that multiplies by the factor there
            (:class:`rebnn_mm.engine.ResilientGradient` does).

    Source: the ReBNN paper, Eq. 2 and 5; chain rule for alpha.

    Example:
        >>> w = torch.tensor([[0.5, -2.0]], requires_grad=True)
        >>> a = torch.tensor([0.1], requires_grad=True)
        >>> (scaled_sign(w, a) * torch.tensor([[1., 3.]])).sum().backward()
        >>> w.grad, a.grad
        (tensor([[0.1000, 0.0000]]), tensor([-2.]))
    """
    return _ScaledSign.apply(weight, alpha, mask)


def scaled_sign_released(weight: Tensor, alpha: Tensor) -> Tensor:
    r"""The same forward with the gradients of the code that the paper's authors released.

    That code holds :math:`\alpha = 0.02 s`, drops the 0.02 and the straight-through mask from the weight's gradient
    and sums the latent weight instead of its sign in the scale's:

    .. math::
        \frac{\partial L}{\partial w_{ij}} = \frac{\alpha_i}{0.02} G_{ij}
        \qquad
        \frac{\partial L}{\partial \alpha_i} = \sum_j G_{ij} w_{ij}

    Offered as ``variant='official'`` to reproduce what was run; it is not the paper's Eq. 5.

    Args:
        weight: latent weight, shape (C_out, ...).
        alpha: scaling factor, shape (C_out,).

    Example:
        >>> w = torch.tensor([[0.5, -2.0]], requires_grad=True)
        >>> a = torch.tensor([0.1], requires_grad=True)
        >>> (scaled_sign_released(w, a) * torch.tensor([[1., 3.]])).sum().backward()
        >>> w.grad, a.grad
        (tensor([[ 5., 15.]]), tensor([-5.5000]))
    """
    return _ScaledSignReleased.apply(weight, alpha)
