"""What an encoder's attention is made of, between its projections and its output layer."""

from typing import NamedTuple

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional


class AttentionParts(NamedTuple):
    """What an attention computes.

    Attributes:
        output: (B, N, H, d), what the output layer sees.
        scores: (B, H, N, N), products of query and key times the scaling, before the mask.
        weights: (B, H, N, N), what the values are summed with.
    """

    output: Tensor
    scores: Tensor
    weights: Tensor


class EncoderAttention(nn.Module):
    """Base of the attentions that quantize: one module for each attention of an encoder.

    A method adds one subclass in a file of its own, registers it in mmengine's root ``MODELS`` and implements
    :meth:`forward`. Learnable state is made in ``__init__``; a quantizer with a shift
    (:class:`rebnn_mm.quantizers.ActivationQuantizer`) is calibrated like that of any layer.
    :func:`rebnn_mm.models.language.install_attention` builds it inside a Hugging Face model.

    Args:
        heads: number of heads H.
        head_dim: values per head d.
    """

    def __init__(self, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = head_dim

    @property
    def operand_bits(self) -> int:
        """Bits of the factors of its two products, of the widest one if they differ; 32 for real numbers."""
        return 32

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
        r"""Attend.

        Args:
            query: (B, H, N, d), real-valued: the projection as it is.
            key: the same.
            value: the same.
            mask: bool, (B, 1, 1 or N, N), True where a position may be attended to; None for everywhere.
            dropout: share of weights dropped in training; ``self.training`` decides.
            scaling: factor of the scores, as a rule :math:`1/\sqrt{d}`.
        """
        raise NotImplementedError(f'{type(self).__name__} has to implement forward')


@MODELS.register_module('BinaryRealAttention')
class RealAttention(EncoderAttention):
    r"""Softmax attention without quantization, written out: what the others are compared with.

    .. math:: softmax(Q K^T / \sqrt{d}) \, V

    Example:
        >>> q = k = v = torch.eye(2).view(1, 1, 2, 2)
        >>> mask = torch.tensor([True, False]).view(1, 1, 1, 2)
        >>> RealAttention(heads=1, head_dim=2)(q, k, v, mask, 0.0, 1.0).output[0, :, 0]
        tensor([[1., 0.],
                [1., 0.]])
    """

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
        """Attend; see the base class."""
        scores = torch.matmul(query, key.transpose(-1, -2)) * scaling
        masked = scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = functional.dropout(masked.softmax(-1), dropout, self.training)
        return AttentionParts(torch.matmul(weights, value).transpose(1, 2).contiguous(), scores, weights)
