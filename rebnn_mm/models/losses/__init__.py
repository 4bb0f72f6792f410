"""Losses usable from mmdet, mmpretrain and transformers alike."""

from .bidet_loss import BiDetLoss
from .distribution_loss import DistributionLoss, distribution_loss
from .encoder_losses import (
    AttentionScoreLoss,
    DirectionMatchingLoss,
    EncoderComparisonLoss,
    HiddenStateLoss,
    PredictionLoss,
)

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
