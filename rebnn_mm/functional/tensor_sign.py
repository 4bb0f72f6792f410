"""Signs of a weight with one scale, and a gradient that passes unchanged."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .sign import sign
from .ternary import weight_dims


def tensor_sign_codes(weight: Tensor, per: str = 'tensor', centred: bool = False) -> tuple[Tensor, Tensor]:
    r"""Signs and scale of :func:`tensor_sign`.

    Returns:
        tuple[Tensor, Tensor]: signs of the weight's shape, and the scale with ones in the dimensions it covers.

    Example:
        >>> tensor_sign_codes(torch.tensor([[1.0, 2.0], [3.0, -4.0]]), centred=True)
        (tensor([[ 1.,  1.],
                [ 1., -1.]]), tensor([[2.5000]]))
    """
    scale = weight.abs().mean(dim=weight_dims(weight, per), keepdim=True)
    return sign(weight - weight.mean() if centred else weight), scale


class _TensorSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, per: str, centred: bool) -> Tensor:
        signs, scale = tensor_sign_codes(weight, per, centred)
        return signs.mul_(scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None


def tensor_sign(weight: Tensor, per: str = 'tensor', centred: bool = False) -> Tensor:
    r"""Sign times the mean magnitude, with a gradient that passes unchanged.

    .. math::
        \hat w = \overline{|w|} \, sign(w - \mu), \quad
        \mu = \begin{cases} \bar w & \text{centred} \\ 0 & \text{else} \end{cases}
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}

    The mean :math:`\bar w` is that of the whole tensor in any case; the magnitude is that of the uncentred weight.

    Args:
        weight: latent weight, shape (C_out, ...).
        per: whether one scale covers the ``'tensor'`` or a ``'channel'``.
        centred: whether the tensor's mean is taken off before the sign.

    Source: Rastegari et al. 2016 (Binary-Weight-Networks) as BinaryBERT's and, with centring, BiT's released code
    compute it.

    Example:
        >>> w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> w_hat = tensor_sign(w, per='channel', centred=True)
        >>> w_hat.sum().backward()
        >>> w_hat.detach().tolist(), w.grad.tolist()
        ([[-1.5, -1.5], [3.5, 3.5]], [[1.0, 1.0], [1.0, 1.0]])
    """
    return _TensorSign.apply(weight, per, centred)
