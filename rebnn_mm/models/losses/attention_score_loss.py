"""Distillation of attention scores."""

from typing import TYPE_CHECKING

import torch
from mmengine.registry import MODELS
from torch import Tensor

from .encoder_comparison import EncoderComparisonLoss

if TYPE_CHECKING:
    from ..language.encoder_output import EncoderOutput


@MODELS.register_module()
class AttentionScoreLoss(EncoderComparisonLoss):
    r"""Compares the attention scores before the softmax, layer by layer.

    .. math:: L = \sum_{layers} \overline{(A^S - A^T)^2}

    The mean is over heads and pairs of tokens that count. Without ``mask_padding`` it is over all pairs, but those
    with a padded key count as agreeing, as in TernaryBERT's released code.

    Args:
        weight: factor of the loss.
        mask_padding: whether padded tokens are left out of the mean.

    Raises:
        ValueError: in the forward pass, if the student has other layers, heads or lengths than the teacher.

    Source: Zhang et al. 2020 (TernaryBERT), attention loss.

    Example:
        >>> from rebnn_mm.models.language.encoder_output import AttentionRecord, EncoderOutput
        >>> def encoded(scores):
        ...     record = AttentionRecord(scores, scores, scores, scores, None, 1.0)
        ...     return EncoderOutput(scores, (), [record], torch.tensor([[True, False]]))
        >>> ours, theirs = torch.tensor([[[[1.0, 5.0], [6.0, 7.0]]]]), torch.zeros(1, 1, 2, 2)
        >>> AttentionScoreLoss()(encoded(ours), encoded(theirs))
        {'loss_scores': tensor(1.)}
    """

    def forward(self, student: 'EncoderOutput', teacher: 'EncoderOutput') -> dict[str, Tensor]:
        """``loss_scores``."""
        queries, keys = self.kept(student)[:, None, :, None], student.mask[:, None, None, :]
        terms = []
        for ours, theirs in self.layer_pairs(student.attention, teacher.attention, 'attentions'):
            self.check_shapes(ours.scores, theirs.scores, 'attention scores')
            squares = (ours.scores - theirs.scores).float().square() * (queries & keys)
            pairs = (queries & (keys if self.mask_padding else torch.ones_like(keys))).sum()
            terms.append(squares.sum() / (pairs * squares.shape[1]))
        return {'loss_scores': self.weight * torch.stack(terms).sum()}
