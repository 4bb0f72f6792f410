"""Losses usable from mmdet, mmpretrain and transformers alike."""

from .attention_score_loss import AttentionScoreLoss
from .bidet_loss import BiDetLoss
from .direction_matching_loss import DirectionMatchingLoss
from .distribution_loss import DistributionLoss, distribution_loss
from .encoder_comparison import EncoderComparisonLoss
from .hidden_state_loss import HiddenStateLoss
from .prediction_loss import PredictionLoss

__all__ = [
    'AttentionScoreLoss',
    'BiDetLoss',
    'DirectionMatchingLoss',
    'DistributionLoss',
    'EncoderComparisonLoss',
    'HiddenStateLoss',
    'PredictionLoss',
    'distribution_loss',
]
