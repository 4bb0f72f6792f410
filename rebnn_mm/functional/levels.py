"""Weights and activations on a few even levels: ternary, and k bits within a range."""

import torch
from torch import Tensor

from .channel import channel_dims
from .sign import straight_through

THRESHOLD = 0.7
"""Share of the mean magnitude below which a weight becomes 0."""


def ternary_codes(weight: Tensor, per: str = 'tensor') -> tuple[Tensor, Tensor]:
    r"""Integers -1, 0 and 1, and their scale.

    .. math::
        t = \begin{cases} sign(w) & |w| > \Delta \\ 0 & \text{else} \end{cases}, \quad
        \Delta = 0.7 \, \overline{|w|}, \quad
        s = \frac{1}{|I|} \sum_{i \in I} |w_i|, \; I = \{i : |w_i| > \Delta\}

    ``per``: whether one scale covers the ``'tensor'`` or a ``'channel'``. s has ones in the dimensions it covers.

    Source: Li and Liu 2016 (Ternary Weight Networks), Eq. 3 to 6.

    Example:
        >>> ternary_codes(torch.tensor([[0.1, -1.0, 2.0, -0.2]]))
        (tensor([[ 0., -1.,  1.,  0.]]), tensor([[1.5000]]))
    """
    dims = channel_dims(weight, per)
    magnitude = weight.abs()
    threshold = THRESHOLD * magnitude.mean(dim=dims, keepdim=True)
    codes = (weight > threshold).to(weight.dtype) - (weight < -threshold).to(weight.dtype)
    # Half precision ends at 65,504.
    exact = torch.promote_types(weight.dtype, torch.float32)
    count = codes.abs().sum(dim=dims, keepdim=True, dtype=exact).clamp(min=1)
    return codes, ((weight * codes).sum(dim=dims, keepdim=True, dtype=exact) / count).to(weight.dtype)


def symmetric_codes(x: Tensor, limit: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    r"""Integers and their factor, symmetric around zero.

    .. math::
        n = clamp\left(round\left(\frac{x}{s}\right), -T, T\right), \quad
        s = \frac{limit}{T}, \quad T = 2^{k - 1} - 1

    Two bits give -1, 0 and 1.

    ``limit``: the largest magnitude that is represented; broadcasts over x. ``bits``: k, at least 2.

    Example:
        >>> symmetric_codes(torch.tensor([-3.0, 0.4, 1.2]), torch.tensor(2.0), bits=3)
        (tensor([-3.,  1.,  2.]), tensor(0.6667))
    """
    top = 2 ** (bits - 1) - 1
    factor = (limit / top).clamp(min=torch.finfo(x.dtype).tiny)
    return (x / factor).round_().clamp_(-top, top), factor


def symmetric_round(x: Tensor, limit: Tensor, bits: int, clip: float | None = None) -> Tensor:
    r"""The nearest level of :func:`symmetric_codes`, with straight-through gradient.

    .. math::
        \hat x = s n
        \qquad
        \frac{\partial L}{\partial x} = \frac{\partial L}{\partial \hat x} \, 1_{|x| < clip}

    ``limit``: the largest magnitude that is represented, a constant in the backward; broadcasts over x. ``bits``: k,
    at least 2. ``clip``: magnitude from which on nothing gets a gradient; None for a gradient everywhere.

    Source: Zafrir et al. 2019 (Q8BERT); with a clip, Zhang et al. 2020 (TernaryBERT), as the released code of each
    computes it.

    Example:
        >>> x = torch.tensor([-3.0, 0.4, 1.2], requires_grad=True)
        >>> y = symmetric_round(x, torch.tensor(1.2), bits=2, clip=2.5)
        >>> y.sum().backward()
        >>> y.detach(), x.grad
        (tensor([-1.2000,  0.0000,  1.2000]), tensor([0., 1., 1.]))
    """
    codes, factor = symmetric_codes(x.detach(), limit.detach(), bits)
    passing = x if clip is None else torch.where(x.abs() < clip, x, x.detach())
    return straight_through(passing, codes * factor)
