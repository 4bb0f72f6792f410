"""Attention between projections and output layer of an encoder: full precision, quantized, binary."""

from typing import NamedTuple

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from ..functional import sign_ste, step_ste
from ..quantizers import build_activation_quantizer
from ..quantizers.builder import QuantizerConfig


class AttentionParts(NamedTuple):
    """Values that an attention computes.

    ``output`` (B, N, H, d) is what the output layer sees; ``scores`` (B, H, N, N) are products of query and key times
    the scaling, before the mask; ``weights`` (B, H, N, N) are what the values are summed with.
    """

    output: Tensor
    scores: Tensor
    weights: Tensor


class EncoderAttention(nn.Module):
    """Base of the attentions that quantize: one module for each attention of an encoder.

    A method adds one subclass, registers it in mmengine's root ``MODELS`` and implements
    :meth:`forward`. Learnable state is made in ``__init__``; a quantizer with a shift
    (:class:`rebnn_mm.quantizers.ActivationQuantizer`) is calibrated like that of any layer.
    :func:`rebnn_mm.models.language.install_attention` builds it inside a Hugging Face model.

    Args:
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
        r"""Attend, with full-precision projections (B, H, N, d) as they are.

        ``mask`` is True where a position may be attended to, (B, 1, 1 or N, N), None for everywhere; ``dropout`` the
        share of weights dropped in training; ``scaling`` the factor of the scores, as a rule :math:`1/\sqrt{d}`.
        """
        raise NotImplementedError(f'{type(self).__name__} has to implement forward')


@MODELS.register_module()
class SoftmaxAttention(EncoderAttention):
    r"""Softmax attention with a quantizer on query, key, value and on the weights.

    .. math::
        A = \frac{q(Q) \, q(K)^T}{\sqrt{d}}, \qquad
        P = q_w(softmax(A)), \qquad
        out = P \, q(V)

    Q, K and V have quantizers of their own, of the same kind. Dropout comes before :math:`q_w`; what is masked or
    dropped stays 0 after it, whatever :math:`q_w` makes of 0. Of ``projections`` and ``weights``, TernaryBERT has
    ``TernaryBERTActivation`` for both, Q-BERT ``Q8BERTActivation``, BinaryBERT with one bit ``BinarySign`` and
    ``BinaryStep``, BiT ``BiTSign`` and ``BiTStep``.

    Args:
        heads, head_dim: see :class:`EncoderAttention`.
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
        quantizers = (self.query_quantizer, self.key_quantizer, self.value_quantizer, self.weight_quantizer)
        return max(32 if quantizer is None else quantizer.bits for quantizer in quantizers)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
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


@MODELS.register_module()
class BinaryAttention(EncoderAttention):
    r"""Bi-Attention: signs of query, key and value, and a step in place of the softmax.

    .. math::
        A = \frac{sign(Q) \, sign(K)^T}{\sqrt{d}}, \qquad
        B = bool(A), \qquad
        out = B \, sign(V), \qquad bool(x) = \begin{cases} 1 & x \ge 0 \\ 0 & x < 0 \end{cases}

    Gradients pass signs and step where the magnitude of their input is at most 1. The output is not divided by the
    number of attended positions. Mask and dropout set weights to 0 *after* the step: a score that is set to 0
    before it would count as attended. Dropped weights do not scale up the others, as in BiBERT.

    Args:
        heads, head_dim: see :class:`EncoderAttention`.
        tie: whether a score of exactly 0 attends, as in the paper; False is the released code. At d = 64 one score in
            ten is 0.

    Source: Qin et al. 2022 (BiBERT), Bi-Attention.

    Example:
        >>> q = torch.tensor([[1., 1.], [-1., 1.]]).view(1, 1, 2, 2)
        >>> parts = BinaryAttention(heads=1, head_dim=2, tie=False)(q, q, q, None, 0.0, 0.5)
        >>> parts.scores[0, 0].tolist(), parts.weights[0, 0].tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, heads: int, head_dim: int, tie: bool = True) -> None:
        super().__init__(heads, head_dim)
        self.tie = tie

    @property
    def operand_bits(self) -> int:
        return 1

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
        scores = torch.matmul(sign_ste(query), sign_ste(key).transpose(-1, -2)) * scaling
        weights = step_ste(scores, self.tie)
        if mask is not None:
            weights = weights * mask
        if self.training and dropout > 0:
            weights = weights * (torch.rand_like(weights, dtype=torch.float32) >= dropout)
        output = torch.matmul(weights, sign_ste(value)).transpose(1, 2).contiguous()
        return AttentionParts(output, scores, weights)

    def extra_repr(self) -> str:
        return f'{self.heads}, {self.head_dim}, tie={self.tie}'
