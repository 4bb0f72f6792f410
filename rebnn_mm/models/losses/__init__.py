"""Losses usable from mmdet and mmpretrain alike."""

from .bidet_loss import BiDetLoss
from .distribution_loss import BinaryDistributionLoss, distribution_loss

__all__ = ['BiDetLoss', 'BinaryDistributionLoss', 'distribution_loss']
