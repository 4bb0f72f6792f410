"""Bi-Real Net's layers: the binary layers with Bi-Real Net's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class BiRealConv2d(BinaryConv2d, nn.Conv2d):
    """Bi-Real Net's convolution: ``conv_cfg=dict(type='BiRealConv2d')``.

    Magnitude-aware gradient for the weight, piecewise quadratic estimator for the input.

    Source: Liu et al. 2018 (Bi-Real Net).

    Example:
        >>> conv = BiRealConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('BinaryMeanScaleWeight', 'BinaryApproxSign')
    """

    method_weight: ClassVar[QuantizerConfig] = 'BinaryMeanScaleWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'BinaryApproxSign'


@MODELS.register_module()
class BiRealLinear(BinaryLinear, nn.Linear):
    """Bi-Real Net's linear layer, with the quantizers of :class:`BiRealConv2d`.

    Source: Liu et al. 2018 (Bi-Real Net).

    Example:
        >>> BiRealLinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = BiRealConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = BiRealConv2d.method_activation
