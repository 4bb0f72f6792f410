"""BiBERT's Bi-Attention."""

import torch
from mmengine.registry import MODELS
from torch import Tensor

from ..functional import sign_ste, step_ste
from .attention import AttentionParts, EncoderAttention


@MODELS.register_module()
class BinaryAttention(EncoderAttention):
    r"""Bi-Attention: signs of query, key and value, and a step in place of the softmax.

    .. math::
        A = \frac{sign(Q) \, sign(K)^T}{\sqrt{d}}, \qquad
        B = bool(A), \qquad
        out = B \, sign(V), \qquad bool(x) = \begin{cases} 1 & x \ge 0 \\ 0 & x < 0 \end{cases}

    Gradients pass signs and step where the magnitude of their input is at most 1. The output is made of integers and
    is not divided by the number of attended positions.

    Mask and dropout set weights to 0 *behind* the step: a score that is set to 0 before it would count as attended.
    Dropped weights do not scale up the others, as in BiBERT.

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
        """One."""
        return 1

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float
    ) -> AttentionParts:
        """Attend; see the base class."""
        scores = torch.matmul(sign_ste(query), sign_ste(key).transpose(-1, -2)) * scaling
        weights = step_ste(scores, self.tie)
        if mask is not None:
            weights = weights * mask
        if self.training and dropout > 0:
            kept = torch.rand_like(weights, dtype=torch.float32) >= dropout
            weights = weights * kept
        output = torch.matmul(weights, sign_ste(value)).transpose(1, 2).contiguous()
        return AttentionParts(output, scores, weights)

    def extra_repr(self) -> str:
        """Sizes and option, as printed by ``print(model)``."""
        return f'{self.heads}, {self.head_dim}, tie={self.tie}'
