"""Ternary weights, and how a ternary weight is split into two binary ones."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

THRESHOLD = 0.7
"""Share of the mean magnitude below which a weight becomes 0."""


def weight_dims(weight: Tensor, per: str) -> tuple[int, ...]:
    """The dimensions that one scale covers: all of them (``per='tensor'``), or all but the first (``'channel'``).

    Example:
        >>> weight_dims(torch.zeros(4, 3), 'tensor'), weight_dims(torch.zeros(4, 3), 'channel')
        ((0, 1), (1,))
    """
    return tuple(range(0 if per == 'tensor' else 1, weight.dim()))


def ternary_codes(weight: Tensor, per: str = 'tensor') -> tuple[Tensor, Tensor]:
    r"""Integers -1, 0 and 1, and their scale.

    .. math::
        t = \begin{cases} sign(w) & |w| > \Delta \\ 0 & \text{else} \end{cases}, \quad
        \Delta = 0.7 \, \overline{|w|}, \quad
        s = \frac{1}{|I|} \sum_{i \in I} |w_i|, \; I = \{i : |w_i| > \Delta\}

    Args:
        weight: latent weight, shape (C_out, ...).
        per: whether one scale covers the ``'tensor'`` or a ``'channel'``.

    Returns:
        tuple[Tensor, Tensor]: t of the weight's shape, and s with ones in the dimensions it covers.

    Source: Li and Liu 2016 (Ternary Weight Networks), Eq. 3 to 6.

    Example:
        >>> ternary_codes(torch.tensor([[0.1, -1.0, 2.0, -0.2]]))
        (tensor([[ 0., -1.,  1.,  0.]]), tensor([[1.5000]]))
    """
    dims = weight_dims(weight, per)
    magnitude = weight.abs()
    threshold = THRESHOLD * magnitude.mean(dim=dims, keepdim=True)
    codes = (weight > threshold).to(weight.dtype) - (weight < -threshold).to(weight.dtype)
    count = codes.abs().sum(dim=dims, keepdim=True).clamp(min=1)
    return codes, (weight * codes).sum(dim=dims, keepdim=True) / count


class _TernaryWeight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, per: str, clip: float) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.clip = clip
        codes, scale = ternary_codes(weight, per)
        return codes * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return grad * (weight.abs() < ctx.clip), None, None


def ternary_weight(weight: Tensor, per: str = 'tensor', clip: float = 2.5) -> Tensor:
    r"""Ternary weight with straight-through gradient.

    .. math::
        \hat w = s \, t
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w} \, 1_{|w| < clip}

    with t and s of :func:`ternary_codes`. The gradient is not multiplied by the scale.

    Args:
        weight: latent weight, shape (C_out, ...).
        per: whether one scale covers the ``'tensor'`` or a ``'channel'``.
        clip: magnitude from which on a weight gets no gradient.

    Source: Li and Liu 2016; gradient and clip as TernaryBERT's released code has them (Zhang et al. 2020).

    Example:
        >>> w = torch.tensor([[0.1, -1.0, 3.0, -0.2]], requires_grad=True)
        >>> w_hat = ternary_weight(w)
        >>> w_hat.sum().backward()
        >>> w_hat.detach(), w.grad
        (tensor([[ 0., -2.,  2.,  0.]]), tensor([[1., 1., 0., 1.]]))
    """
    return _TernaryWeight.apply(weight, per, clip)


def split_ternary(weight: Tensor, per: str = 'tensor') -> tuple[Tensor, Tensor]:
    r"""Two latent weights whose binarised sum is the ternary weight (ternary weight splitting).

    With t and s of :func:`ternary_codes` and n values per scale,

    .. math::
        (u, v) = \begin{cases}
            (m w, \; (1 - m) w) & t \ne 0 \\
            (w + c, \; -c) & t = 0, \; w \ge 0 \\
            (c, \; w - c) & t = 0, \; w < 0
        \end{cases}
        \qquad
        c = \frac{n s - \sum |w|}{2 n_0}, \quad
        m = \frac{S_{t \ne 0} + S_{t = 0, w < 0} - S_{t = 0, w \ge 0}}{2 S_{t \ne 0}}

    where :math:`S` are sums of \|w\| and :math:`n_0` counts zeros of t. Then :math:`u + v = w`, both means of
    magnitudes are :math:`s / 2`, so the two weights binarised with that scale sum up to :math:`s t`. Computed in
    float64, returned in the weight's type.

    Args:
        weight: latent weight of a trained ternary layer, shape (C_out, ...).
        per: whether one scale covers the ``'tensor'`` or a ``'channel'``.

    Raises:
        ValueError: the weights of one scale are so one-sided that no such pair exists.

    Source: Bai et al. 2021 (BinaryBERT), ternary weight splitting; the two conditions are solved here anew.

    Example:
        >>> u, v = split_ternary(torch.tensor([[0.1, -1.0, 2.0, -0.2]]))
        >>> u + v, u.abs().mean(), v.abs().mean()
        (tensor([[ 0.1000, -1.0000,  2.0000, -0.2000]]), tensor(0.7500), tensor(0.7500))
    """
    w = weight.detach().double()
    dims = weight_dims(w, per)
    codes, scale = ternary_codes(w, per)
    zero, positive, magnitude = codes == 0, w >= 0, w.abs()

    def total(where: Tensor) -> Tensor:
        return (magnitude * where).sum(dim=dims, keepdim=True)

    zeros = zero.sum(dim=dims, keepdim=True)
    values = w.numel() // scale.numel()
    offset = (values * scale - magnitude.sum(dim=dims, keepdim=True)) / (2 * zeros.clamp(min=1))
    large = total(~zero)
    share = (large + total(zero & ~positive) - total(zero & positive)) / (2 * large)
    impossible = (scale > 0) & ((share <= 0) | (share >= 1))
    if impossible.any():
        raise ValueError(
            f'split_ternary: {int(impossible.sum())} of {scale.numel()} scales have no pair of binary weights, '
            'because the small weights have one sign and outweigh the large ones. Train the ternary layer further.'
        )
    share = share.nan_to_num(0.5)  # a scale of zeros
    first = torch.where(zero, torch.where(positive, w + offset, offset), share * w)
    second = torch.where(zero, torch.where(positive, -offset, w - offset), (1 - share) * w)
    return first.to(weight.dtype), second.to(weight.dtype)
