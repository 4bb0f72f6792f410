"""RBNN's layers: the binary layers with RBNN's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class RBNNConv2d(BinaryConv2d, nn.Conv2d):
    """RBNN's convolution: ``conv_cfg=dict(type='RBNNConv2d')``.

    Signs of rotated filters and of normalised inputs; :class:`rebnn_mm.engine.BinaryHook` turns the rotation before
    every epoch and sharpens the estimator.

    Source: Lin et al. 2020 (RBNN).

    Example:
        >>> conv = RBNNConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('RBNNWeight', 'RBNNSign')
    """

    method_weight: ClassVar[QuantizerConfig] = 'RBNNWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'RBNNSign'


@MODELS.register_module()
class RBNNLinear(BinaryLinear, nn.Linear):
    """RBNN's linear layer, with the quantizers of :class:`RBNNConv2d`.

    Source: Lin et al. 2020 (RBNN).

    Example:
        >>> RBNNLinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = RBNNConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = RBNNConv2d.method_activation
