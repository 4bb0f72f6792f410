"""Losses usable from mmdet, mmpretrain and transformers alike."""

from .bidet_loss import BiDetLoss
from .detector_losses import (
    DenseBoxLoss,
    DenseScoreLoss,
    DetectorComparisonLoss,
    DetectorOutput,
    DKDLoss,
    LayerwiseLoss,
    ObjectFeatureLoss,
    ObjectnessLoss,
    PKDLoss,
    RegionBoxLoss,
    decoupled_scores,
    standardised_distance,
)
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
    'DKDLoss',
    'DenseBoxLoss',
    'DenseScoreLoss',
    'DetectorComparisonLoss',
    'DetectorOutput',
    'DirectionMatchingLoss',
    'DistributionLoss',
    'EncoderComparisonLoss',
    'HiddenStateLoss',
    'LayerwiseLoss',
    'ObjectFeatureLoss',
    'ObjectnessLoss',
    'PKDLoss',
    'PredictionLoss',
    'RegionBoxLoss',
    'decoupled_scores',
    'distribution_loss',
    'standardised_distance',
]
