"""ReCU's layers: the binary layers with ReCU's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class ReCUConv2d(BinaryConv2d, nn.Conv2d):
    """ReCU's convolution: ``conv_cfg=dict(type='ReCUConv2d')``.

    Rectified clamp for the weight, whose tau is driven by :class:`rebnn_mm.engine.BinaryHook`.

    Source: Xu et al. 2021 (ReCU).

    Example:
        >>> conv = ReCUConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('ReCUWeight', 'ReCUSign')
    """

    method_weight: ClassVar[QuantizerConfig] = 'ReCUWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'ReCUSign'


@MODELS.register_module()
class ReCULinear(BinaryLinear, nn.Linear):
    """ReCU's linear layer, with the quantizers of :class:`ReCUConv2d`.

    Source: Xu et al. 2021 (ReCU).

    Example:
        >>> ReCULinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = ReCUConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = ReCUConv2d.method_activation
