"""Attention of signs as one operator."""

import torch
from torch import Tensor

from rebnn_mm.layers import BinaryAttention
from rebnn_mm.layers.attention import AttentionParts

from .operators import DOMAIN, DOMAIN_VERSION


class PackedAttention(BinaryAttention):
    """:class:`rebnn_mm.layers.BinaryAttention` in evaluation; the operator of that name in a graph that is exported.

    Scores and weights are not given there: the operator keeps them as bits.

    Args:
        layer: the trained attention.
        name: its dotted name, for messages.

    Example:
        >>> packed = PackedAttention(BinaryAttention(heads=2, head_dim=4))
        >>> q = torch.randn(1, 2, 3, 4)
        >>> packed(q, q, q, None, 0.0, 0.5).output.shape
        torch.Size([1, 3, 2, 4])
    """

    def __init__(self, layer: BinaryAttention, name: str = 'attention') -> None:
        super().__init__(layer.heads, layer.head_dim, layer.tie)
        self.name = name
        self.eval()

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
        """Attend; see the base class.

        Raises:
            ValueError: the mask differs from query to query, as that of a sliding window does.
        """
        if not torch.onnx.is_in_onnx_export():
            return super().forward(query, key, value, mask, dropout, scaling)
        if mask is None:
            mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        if mask.shape[1] != 1 or mask.shape[2] != 1:
            raise ValueError(
                f'BinaryAttention {self.name!r}: its mask is another one for every query, and the packed format knows '
                'padding only. Export an encoder whose layers all see the whole text.'
            )
        batch, heads, length, size = query.shape
        output = torch.onnx.ops.symbolic(
            f'{DOMAIN}::BinaryAttention',
            tuple(x.transpose(1, 2) for x in (query, key, value)) + (mask,),
            attrs=dict(tie=int(self.tie)),
            dtype=query.dtype,
            shape=(batch, length, heads, size),
            version=DOMAIN_VERSION,
        )
        return AttentionParts(output, query.new_empty(0), query.new_empty(0))
