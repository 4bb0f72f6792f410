"""Losses usable from mmdet, mmpretrain and transformers alike."""

from .bidet_loss import BiDetLoss
from .detector_comparison import DetectorComparisonLoss, DetectorOutput
from .detector_losses import DenseBoxLoss, DenseScoreLoss, DKDLoss, ObjectnessLoss, RegionBoxLoss, decouple_scores
from .distribution_loss import DistributionLoss, distribution_loss
from .encoder_losses import (
    AttentionScoreLoss,
    DirectionMatchingLoss,
    EncoderComparisonLoss,
    HiddenStateLoss,
    PredictionLoss,
)
from .feature_losses import (
    AttentionTransferLoss,
    MapLoss,
    ObjectFeatureLoss,
    PKDLoss,
    RegionDiscrepancyLoss,
    attention_distance,
    compare_maps,
)
from .layerwise_loss import LayerwiseLoss
