"""XNOR-Net's layers: the binary layers with XNOR-Net's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class XNORConv2d(BinaryConv2d, nn.Conv2d):
    """XNOR-Net's convolution: ``conv_cfg=dict(type='XNORConv2d')``.

    Weights scaled by their mean magnitude, centred and clamped by :class:`rebnn_mm.engine.BinaryHook`.

    Source: Rastegari et al. 2016 (XNOR-Net).

    Example:
        >>> conv = XNORConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('XNORWeight', 'BinarySign')
    """

    method_weight: ClassVar[QuantizerConfig] = 'XNORWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'BinarySign'


@MODELS.register_module()
class XNORLinear(BinaryLinear, nn.Linear):
    """XNOR-Net's linear layer, with the quantizers of :class:`XNORConv2d`.

    Source: Rastegari et al. 2016 (XNOR-Net).

    Example:
        >>> XNORLinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = XNORConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = XNORConv2d.method_activation
