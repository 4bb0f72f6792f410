"""ReActNet's layers: the binary layers with ReActNet's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class ReActConv2d(BinaryConv2d, nn.Conv2d):
    """ReActNet's convolution: ``conv_cfg=dict(type='ReActConv2d')``.

    Bi-Real Net's layer with a learnable threshold per channel in front of the sign. What else makes ReActNet is the
    block style ``'react'`` and training in two stages with a teacher.

    Source: Liu et al. 2020 (ReActNet).

    Example:
        >>> conv = ReActConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('BinaryMeanScaleWeight', 'BinaryRSign')
    """

    method_weight: ClassVar[QuantizerConfig] = 'BinaryMeanScaleWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'BinaryRSign'


@MODELS.register_module()
class ReActLinear(BinaryLinear, nn.Linear):
    """ReActNet's linear layer, with the quantizers of :class:`ReActConv2d`.

    Source: Liu et al. 2020 (ReActNet).

    Example:
        >>> ReActLinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = ReActConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = ReActConv2d.method_activation
