"""DoReFa-Net's layers: the binary layers with DoReFa-Net's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class DoReFaConv2d(BinaryConv2d, nn.Conv2d):
    """DoReFa-Net's convolution: ``conv_cfg=dict(type='DoReFaConv2d')``.

    Four bits each; others by ``weight=dict(type='DoReFaWeight', bits=2)``, ``activation=dict(type='DoReFaActivation',
    bits=2)``.

    Source: Zhou et al. 2016 (DoReFa-Net).

    Example:
        >>> conv = DoReFaConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('DoReFaWeight', 'DoReFaActivation')
    """

    method_weight: ClassVar[QuantizerConfig] = 'DoReFaWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'DoReFaActivation'


@MODELS.register_module()
class DoReFaLinear(BinaryLinear, nn.Linear):
    """DoReFa-Net's linear layer, with the quantizers of :class:`DoReFaConv2d`.

    Source: Zhou et al. 2016 (DoReFa-Net).

    Example:
        >>> DoReFaLinear(16, 4).weight_bits
        4
    """

    method_weight: ClassVar[QuantizerConfig] = DoReFaConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = DoReFaConv2d.method_activation
