"""Losses usable from mmdet, mmpretrain and transformers alike."""

from .attention_score_loss import BinaryAttentionScoreLoss
from .bidet_loss import BiDetLoss
from .direction_matching_loss import BinaryDirectionMatchingLoss
from .distribution_loss import BinaryDistributionLoss, distribution_loss
from .encoder_comparison import EncoderComparisonLoss
from .hidden_state_loss import BinaryHiddenStateLoss
from .prediction_loss import BinaryPredictionLoss

__all__ = [
    'BiDetLoss',
    'BinaryAttentionScoreLoss',
    'BinaryDirectionMatchingLoss',
    'BinaryDistributionLoss',
    'BinaryHiddenStateLoss',
    'BinaryPredictionLoss',
    'EncoderComparisonLoss',
    'distribution_loss',
]
