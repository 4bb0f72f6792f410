"""BNN's layers: the binary layers with BNN's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class BNNConv2d(BinaryConv2d, nn.Conv2d):
    """BNN's convolution: ``conv_cfg=dict(type='BNNConv2d')``.

    Bare signs, clipped straight-through estimator for the input; latent weights are clamped by
    :class:`rebnn_mm.engine.BinaryHook`.

    Source: Courbariaux et al. 2016 (BNN).

    Example:
        >>> conv = BNNConv2d(16, 32, 3, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__
        ('BNNWeight', 'BinarySign')
    """

    method_weight: ClassVar[QuantizerConfig] = 'BNNWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'BinarySign'


@MODELS.register_module()
class BNNLinear(BinaryLinear, nn.Linear):
    """BNN's linear layer, with the quantizers of :class:`BNNConv2d`.

    Source: Courbariaux et al. 2016 (BNN).

    Example:
        >>> BNNLinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = BNNConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = BNNConv2d.method_activation
