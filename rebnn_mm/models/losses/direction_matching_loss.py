"""BiBERT's direction-matching distillation of query, key and value."""

from typing import TYPE_CHECKING

import torch
from mmengine.registry import MODELS
from torch import Tensor

from .encoder_comparison import EncoderComparisonLoss, direction_distance

if TYPE_CHECKING:
    from ..language.encoder_output import EncoderOutput


@MODELS.register_module()
class DirectionMatchingLoss(EncoderComparisonLoss):
    r"""Compares the similarity patterns of query, key and value, layer by layer.

    .. math::
        L_F = \sum_{layers} \left\| \frac{P_F^S}{\|P_F^S\|} - \frac{P_F^T}{\|P_F^T\|} \right\|,
        \quad P_F = \frac{F F^T}{\sqrt{d}}, \quad F \in \{Q, K, V\}

    F is the real-valued projection before any sign, (B, H, N, d), of the student too; the norms are over the whole
    (B, H, N, N), so the factor :math:`1 / \sqrt{d}` has no effect. The attention scores themselves are not compared.

    Args:
        weight: factor of the loss.
        mask_padding: whether padded tokens are left out; BiBERT's code has them in.

    Raises:
        ValueError: in the forward pass, if the student has other layers, heads or lengths than the teacher.

    Source: Qin et al. 2022 (BiBERT), Direction-Matching Distillation, as its released code computes it.

    Example:
        >>> from rebnn_mm.models.language.encoder_output import AttentionRecord, EncoderOutput
        >>> def encoded(x):
        ...     record = AttentionRecord(x, x, x, x @ x.mT, None, 1.0)
        ...     return EncoderOutput(x, (), [record], torch.ones(1, 2, dtype=torch.bool))
        >>> x = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
        >>> DirectionMatchingLoss()(encoded(x), encoded(torch.eye(2).view(1, 1, 2, 2)))['loss_q']
        tensor(0.7654)
    """

    def forward(self, student: 'EncoderOutput', teacher: 'EncoderOutput') -> dict[str, Tensor]:
        """``loss_q``, ``loss_k`` and ``loss_v``."""
        kept = self.kept(student)[:, None, :, None]
        pairs = self.layer_pairs(student.attention, teacher.attention, 'attentions')
        losses = {}
        for name in ('query', 'key', 'value'):
            terms = [self._distance(getattr(ours, name), getattr(theirs, name), kept) for ours, theirs in pairs]
            losses[f'loss_{name[0]}'] = self.weight * torch.stack(terms).sum()
        return losses

    def _distance(self, student: Tensor, teacher: Tensor, kept: Tensor) -> Tensor:
        self.check_shapes(student[..., 0], teacher[..., 0], 'queries, keys and values without their last dimension')
        student, teacher = student * kept, teacher * kept
        return direction_distance(student @ student.mT, teacher @ teacher.mT)
