"""A binary embedding whose rows are bits."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from rebnn_mm.layers import BinaryEmbedding

from .operators import DOMAIN, DOMAIN_VERSION
from .packing import pack_weight, unpack_bits


class PackedEmbedding(nn.Module):
    """:class:`rebnn_mm.layers.BinaryEmbedding` with packed rows; the operator ``BinaryEmbedding``.

    Args:
        layer: a trained embedding with one bit for its weight; it is not changed.
        name: its dotted name, for messages.

    Attributes:
        bits (buffer): packed rows, uint8 (V, ceil(C / 8)).
        scale (buffer): one value per row.

    Shapes: int64 (...) to (..., C).

    Raises:
        ValueError: the weight's codes are not -1 and +1.

    Example:
        >>> layer = BinaryEmbedding(10, 12).eval()
        >>> packed = PackedEmbedding(layer)
        >>> packed.bits.shape, bool((packed(torch.tensor([3, 7])) == layer(torch.tensor([3, 7]))).all())
        (torch.Size([10, 2]), True)
    """

    bits: Tensor
    scale: Tensor

    def __init__(self, layer: BinaryEmbedding, name: str = 'embedding') -> None:
        super().__init__()
        assert layer.weight_quantizer is not None
        with torch.no_grad():
            codes, scale = layer.weight_quantizer.codes(layer.weight)
            try:
                bits = pack_weight(codes.float().cpu().numpy())
            except ValueError as error:
                raise ValueError(f'{name}: {error} Its weight quantizer has to give signs for one bit.') from None
            ones = torch.ones(codes.shape[0])
            self.register_buffer('bits', torch.from_numpy(bits))
            self.register_buffer('scale', ones if scale is None else ones * scale.float().flatten())
        self.channels = layer.embedding_dim

    def forward(self, indices: Tensor) -> Tensor:
        """Look up; see the class."""
        if torch.onnx.is_in_onnx_export():
            return torch.onnx.ops.symbolic(
                f'{DOMAIN}::BinaryEmbedding',
                (indices, self.bits, self.scale),
                attrs=dict(channels=self.channels),
                dtype=self.scale.dtype,
                shape=(*indices.shape, self.channels),
                version=DOMAIN_VERSION,
            )
        signs = torch.from_numpy(unpack_bits(self.bits.cpu().numpy(), self.channels)).to(self.scale)
        return functional.embedding(indices, signs) * self.scale[indices].unsqueeze(-1)
