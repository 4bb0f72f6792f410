"""Bi-Real Net (Liu et al. 2018): signs with a magnitude-aware gradient, and a piecewise quadratic estimator.

The weight's gradient is scaled by its mean magnitude, the input's estimator is ApproxSign; both quantizers are shared
with other methods. The shortcut around every convolution is the block style ``'bireal'``.
"""

from mmengine.registry import MODELS
from torch import nn

from ..layers import BinaryConv2d, BinaryLinear


@MODELS.register_module()
class BiRealConv2d(BinaryConv2d, nn.Conv2d):
    """Bi-Real Net's convolution: ``conv_cfg=dict(type='BiRealConv2d')``."""

    method_weight = 'BinaryMeanScaleWeight'
    method_activation = 'BinaryApproxSign'


@MODELS.register_module()
class BiRealLinear(BinaryLinear, nn.Linear, like=BiRealConv2d):
    """Bi-Real Net's linear layer, with the quantizers of :class:`BiRealConv2d`."""
