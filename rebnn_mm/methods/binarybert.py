"""BinaryBERT (Bai et al. 2021): binary weights with one scale, two of each where a ternary weight was split.

A network is trained with the ternary weights of :mod:`rebnn_mm.methods.ternarybert` first; then every layer becomes
the sum of two binary ones that begin where it ends.
"""

from copy import deepcopy
from typing import Any

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..errors import RebnnError
from ..functional import channel_dims, sign, ternary_codes
from ..layers import BinaryLayer
from ..quantizers import RoundedWeight, Values


def split_ternary(weight: Tensor, per: str = 'tensor') -> tuple[Tensor, Tensor]:
    r"""Two latent weights whose binarized sum is the ternary weight (ternary weight splitting).

    With t and s of :func:`rebnn_mm.functional.ternary_codes` and n values per scale,

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
    magnitudes are :math:`s / 2`, so the two weights binarized with that scale sum up to :math:`s t`. Computed in
    float64, returned in the weight's type.

    Args:
        weight: latent weight of a trained ternary layer, shape (C_out, ...).
        per: whether one scale covers the ``'tensor'`` or a ``'channel'``.

    Raises:
        ValueError: the weights of one scale are so one-sided that no such pair exists.

    Source: Bai et al. 2021 (BinaryBERT), ternary weight splitting; the two conditions are solved here independently.

    Example:
        >>> u, v = split_ternary(torch.tensor([[0.1, -1.0, 2.0, -0.2]]))
        >>> u + v, u.abs().mean(), v.abs().mean()
        (tensor([[ 0.1000, -1.0000,  2.0000, -0.2000]]), tensor(0.7500), tensor(0.7500))
    """
    w = weight.detach().double()
    dims = channel_dims(w, per)
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
        raise RebnnError(
            f'split_ternary: {int(impossible.sum())} of {scale.numel()} scales have no pair of binary weights, '
            'because the small weights have one sign and outweigh the large ones. Train the ternary layer further.'
        )
    share = share.nan_to_num(0.5)  # a scale of zeros
    first = torch.where(zero, torch.where(positive, w + offset, offset), share * w)
    second = torch.where(zero, torch.where(positive, -offset, w - offset), (1 - share) * w)
    return first.to(weight.dtype), second.to(weight.dtype)


@MODELS.register_module()
class BWNWeight(RoundedWeight):
    r"""Sign times the mean magnitude of the tensor or of a channel, with a gradient that passes unchanged.

    .. math::
        \hat w = \overline{|w|} \, sign(w)
        \qquad
        \frac{\partial L}{\partial w} = \frac{\partial L}{\partial \hat w}

    Args:
        per: whether one scale covers the ``'tensor'``, as in BinaryBERT's linear layers, or a ``'channel'``, as in its
            word embedding.

    Raises:
        ValueError: ``per`` is neither.

    Source: Rastegari et al. 2016 (Binary-Weight-Networks); Bai et al. 2021 (BinaryBERT), released code.

    Example:
        >>> BWNWeight((2, 2))(torch.tensor([[1.0, -1.0], [2.0, 0.0]]))
        tensor([[ 1., -1.],
                [ 1.,  1.]])
    """

    values = Values('signs')

    def levels(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return sign(self.latent(weight)), weight.abs().mean(dim=channel_dims(weight, self.per), keepdim=True)


class BinaryPair(nn.Module):
    r"""The sum of two binary layers of the same kind, on the same input.

    .. math:: y = f_1(x) + f_2(x)

    Example:
        >>> from rebnn_mm.layers import BinaryLinear
        >>> layer = BinaryLinear(16, 4, weight='BWNWeight', activation='BinarySign')
        >>> pair = BinaryPair.split(layer)
        >>> pair(torch.randn(2, 16)).shape, [name for name, _ in pair.named_parameters()]
        (torch.Size([2, 4]), ['first.weight', 'first.bias', 'second.weight', 'second.bias'])
    """

    def __init__(self, first: BinaryLayer, second: BinaryLayer) -> None:
        super().__init__()
        self.first = first
        self.second = second

    @classmethod
    @torch.no_grad()
    def split(cls, layer: BinaryLayer) -> 'BinaryPair':
        """Two layers that begin where a ternary layer with this latent weight ends.

        The pair computes what the layer would with :class:`rebnn_mm.methods.TWNWeight` of the same extent
        (:func:`split_ternary`). Each half has half of the bias and a copy of the activation quantizer.

        Raises:
            ValueError: the weight quantizer is no :class:`BWNWeight`, or its weights cannot be split.
        """
        quantizer = layer.weight_quantizer
        if type(quantizer) is not BWNWeight:
            raise RebnnError(
                f'{layer.describe()}: ternary weight splitting needs weight=dict(type="BWNWeight"), not '
                f'{type(quantizer).__name__}.'
            )
        try:
            halves = split_ternary(layer.weight, quantizer.per)
        except ValueError as error:
            raise RebnnError(f'{layer.describe()}: {error}') from error
        second = deepcopy(layer)
        for half, weight in zip((layer, second), halves, strict=True):
            half.weight.copy_(weight)
            bias: Any = getattr(half, 'bias', None)
            if bias is not None:
                bias.div_(2)
        return cls(layer, second)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.second(x)
