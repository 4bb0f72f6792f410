"""Signs of a weight times a scale, learned or computed from the weight."""

import torch
from torch import Tensor

from .channel import channel_dims
from .sign import sign, straight_through


def zero_outside_one(grad: Tensor, weight: Tensor) -> Tensor:
    """Return a gradient times 1[|w| <= 1], the straight-through mask.

    Example:
        >>> zero_outside_one(torch.ones(4), torch.tensor([-1.5, -1., 1., 1.5]))
        tensor([0., 1., 1., 0.])
    """
    beyond = 1 + torch.finfo(weight.dtype).eps
    return torch.ops.aten.hardtanh_backward(grad, weight, -beyond, beyond)


def zero_outside_one_(grad: Tensor, weight: Tensor) -> Tensor:
    """Multiply a gradient in place by 1[|w| <= 1], the straight-through mask; as :func:`zero_outside_one`."""
    # One pass instead of two comparisons and a product. Hardtanh's gradient ends at its bounds, so they are the next
    # numbers beyond one. Without a tensor in between, which torch.compile could not follow.
    beyond = 1 + torch.finfo(weight.dtype).eps
    return torch.ops.aten.hardtanh_backward.grad_input(grad, weight, -beyond, beyond, grad_input=grad)


def tensor_sign_codes(weight: Tensor, per: str = 'tensor', centred: bool = False) -> tuple[Tensor, Tensor]:
    """Signs and scale of :func:`tensor_sign`; the scale has ones in the dimensions it covers.

    Example:
        >>> tensor_sign_codes(torch.tensor([[1.0, 2.0], [3.0, -4.0]]), centred=True)
        (tensor([[ 1.,  1.],
                [ 1., -1.]]), tensor([[2.5000]]))
    """
    scale = weight.abs().mean(dim=channel_dims(weight, per), keepdim=True)
    return sign(weight - weight.mean() if centred else weight), scale


def tensor_sign(weight: Tensor, per: str = 'tensor', centred: bool = False) -> Tensor:
    r"""Sign times the mean magnitude, with a gradient that passes unchanged.

    .. math::
        \hat w = \overline{|w|} \, sign(w - \mu), \quad
        \mu = \begin{cases} \bar w & \text{centred} \\ 0 & \text{else} \end{cases}
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}

    The mean :math:`\bar w` is that of the whole tensor in any case; the magnitude is that of the uncentred weight.

    ``per``: whether one scale covers the ``'tensor'`` or a ``'channel'``. ``centred``: whether the tensor's mean is
    taken off before the sign.

    Source: Rastegari et al. 2016 (Binary-Weight-Networks) as BinaryBERT's and, with centring, BiT's released code
    compute it.

    Example:
        >>> w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> w_hat = tensor_sign(w, per='channel', centred=True)
        >>> w_hat.sum().backward()
        >>> w_hat.detach().tolist(), w.grad.tolist()
        ([[-1.5, -1.5], [3.5, 3.5]], [[1.0, 1.0], [1.0, 1.0]])
    """
    signs, scale = tensor_sign_codes(weight.detach(), per, centred)
    return straight_through(weight, signs.mul_(scale))
