"""ReActNet (Liu et al. 2020): Bi-Real Net's layer with a learnable threshold per channel before the sign.

What else makes ReActNet is the block style ``'react'`` and training in two stages with a teacher.
"""

from mmengine.registry import MODELS
from torch import nn

from ..layers import BinaryConv2d, BinaryLinear


@MODELS.register_module()
class ReActConv2d(BinaryConv2d, nn.Conv2d):
    """ReActNet's convolution: ``conv_cfg=dict(type='ReActConv2d')``."""

    method_weight = 'BinaryMeanScaleWeight'
    method_activation = 'BinaryRSign'


@MODELS.register_module()
class ReActLinear(BinaryLinear, nn.Linear, like=ReActConv2d):
    """ReActNet's linear layer, with the quantizers of :class:`ReActConv2d`."""
