"""Softmax attention whose factors are quantized."""

import torch
from mmengine.registry import MODELS
from torch import Tensor

from ..quantizers import build_activation_quantizer
from ..quantizers.builder import QuantizerConfig
from .attention import AttentionParts, EncoderAttention


@MODELS.register_module('BinarySoftmaxAttention')
class SoftmaxAttention(EncoderAttention):
    r"""Softmax attention with a quantizer on query, key, value and on the weights.

    .. math::
        A = \frac{q(Q) \, q(K)^T}{\sqrt{d}}, \qquad
        P = q_w(softmax(A)), \qquad
        out = P \, q(V)

    Q, K and V have quantizers of their own, of the same kind. Dropout is in front of :math:`q_w`; what is masked or
    dropped stays 0 behind it, whatever :math:`q_w` makes of 0.

    The rows of the table that keep the softmax differ in the quantizers:

    - TernaryBERT: ``TernaryBERTActivation`` for both;
    - Q-BERT, Q2BERT: ``Q8BERTActivation`` for both;
    - BinaryBERT with one bit: ``BinarySign`` and ``BinaryStep``;
    - BiT: ``BiTSign`` and ``BiTStep``.

    Args:
        heads: number of heads H.
        head_dim: values per head d.
        projections: config of the activation quantizer of query, key and value, or None to leave them real. Its
            channels are the d values of a head, so heads share a shift.
        weights: config of the activation quantizer of the softmax's output, or None. It has one channel.

    Raises:
        ValueError: no activation quantizer has that name; the message lists those that exist.

    Source: Zhang et al. 2020 (TernaryBERT); Liu et al. 2022 (BiT); the one-bit form is the baseline that Qin et al.
        2022 (BiBERT) describe.

    Example:
        >>> q = torch.tensor([[3.0, 1.0], [-1.0, 2.0]]).view(1, 1, 2, 2)
        >>> attention = SoftmaxAttention(1, 2, projections='BinarySign', weights='BinaryStep')
        >>> parts = attention(q, q, q, None, 0.0, 0.5)
        >>> parts.scores[0, 0].tolist(), parts.weights[0, 0].tolist(), parts.output[0, :, 0].tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[0.0, 2.0], [0.0, 2.0]])
    """

    def __init__(
        self, heads: int, head_dim: int, projections: QuantizerConfig = None, weights: QuantizerConfig = None
    ) -> None:
        super().__init__(heads, head_dim)
        self.query_quantizer = build_activation_quantizer(projections, head_dim, -1)
        self.key_quantizer = build_activation_quantizer(projections, head_dim, -1)
        self.value_quantizer = build_activation_quantizer(projections, head_dim, -1)
        self.weight_quantizer = build_activation_quantizer(weights, 1, -1)

    @property
    def operand_bits(self) -> int:
        """The most of the quantizers; 32 where one of them is missing."""
        quantizers = (self.query_quantizer, self.key_quantizer, self.value_quantizer, self.weight_quantizer)
        return max(32 if quantizer is None else quantizer.bits for quantizer in quantizers)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
        """Attend; see the base class."""
        if self.query_quantizer is not None and self.key_quantizer is not None and self.value_quantizer is not None:
            query, key, value = self.query_quantizer(query), self.key_quantizer(key), self.value_quantizer(value)
        scores = torch.matmul(query, key.transpose(-1, -2)) * scaling
        masked = scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = masked.softmax(-1)
        kept = mask
        if self.training and dropout > 0:
            drawn = torch.rand_like(weights, dtype=torch.float32) >= dropout
            weights = weights * drawn / (1 - dropout)
            kept = drawn if mask is None else drawn & mask
        if self.weight_quantizer is not None:
            weights = self.weight_quantizer(weights)
            weights = weights if kept is None else weights * kept
        return AttentionParts(torch.matmul(weights, value).transpose(1, 2).contiguous(), scores, weights)
