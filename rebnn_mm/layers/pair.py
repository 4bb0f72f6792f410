"""A binary layer that is the sum of two, as ternary weight splitting makes it."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from ..functional import split_ternary
from ..quantizers import BWNWeight
from .base import BinaryLayer


class BinaryPair(nn.Module):
    r"""The sum of two binary layers of the same kind, on the same input.

    .. math:: y = f_1(x) + f_2(x)

    Args:
        first: :math:`f_1`.
        second: :math:`f_2`.

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

        The pair computes what the layer would with :class:`rebnn_mm.quantizers.TWNWeight` of the same extent
        (:func:`rebnn_mm.functional.split_ternary`). Each half has half of the bias and a copy of the activation
        quantizer.

        Args:
            layer: a binary layer whose weight quantizer is :class:`rebnn_mm.quantizers.BWNWeight`; it becomes the
                first half.

        Raises:
            ValueError: it has another weight quantizer, or its weights cannot be split.
        """
        quantizer = layer.weight_quantizer
        if type(quantizer) is not BWNWeight:
            raise ValueError(
                f'{layer.described()}: ternary weight splitting needs weight=dict(type="BWNWeight"), not '
                f'{type(quantizer).__name__}.'
            )
        try:
            halves = split_ternary(layer.weight, quantizer.per)
        except ValueError as error:
            raise ValueError(f'{layer.described()}: {error}') from error
        second = deepcopy(layer)
        for half, weight in zip((layer, second), halves, strict=True):
            half.weight.copy_(weight)
            bias: Any = getattr(half, 'bias', None)
            if bias is not None:
                bias.div_(2)
        return cls(layer, second)

    def forward(self, x: Tensor) -> Tensor:
        """Add up both layers' outputs."""
        return self.first(x) + self.second(x)
