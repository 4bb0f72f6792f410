"""FDA-BNN's layers: the binary layers with FDA-BNN's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class FDAConv2d(BinaryConv2d, nn.Conv2d):
    """FDA-BNN's convolution: ``conv_cfg=dict(type='FDAConv2d')``.

    Signs with a Fourier series as derivative and a noise that fades, both driven by
    :class:`rebnn_mm.engine.BinaryHook`.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> conv = FDAConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('FDAWeight', 'FDASign')
    """

    method_weight: ClassVar[QuantizerConfig] = 'FDAWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'FDASign'


@MODELS.register_module()
class FDALinear(BinaryLinear, nn.Linear):
    """FDA-BNN's linear layer, with the quantizers of :class:`FDAConv2d`.

    Source: Xu et al. 2021 (FDA-BNN).

    Example:
        >>> FDALinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = FDAConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = FDAConv2d.method_activation
