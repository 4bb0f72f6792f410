"""BiDet's layers: the binary layers with BiDet's quantizers."""

from typing import Any, ClassVar

from mmengine.registry import MODELS
from torch import nn

from ..quantizers.builder import QuantizerConfig
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


# nn.Conv2d is named again because mmengine's init_cfg (layer='Conv2d') looks at direct base classes only.
@MODELS.register_module()
class BiDetConv2d(BinaryConv2d, nn.Conv2d):
    """BiDet's convolution: ``conv_cfg=dict(type='BiDetConv2d')``.

    Bi-Real Net's with two differences: the scaling factor takes part in the weight's gradient, which is not masked,
    and borders are padded with -1, a value that one bit can hold.

    Source: the released code of BiDet (Wang et al., CVPR 2020).

    Example:
        >>> conv = BiDetConv2d(16, 32, 3, padding=1, bias=False)
        >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__, conv.pad_value
        ('BiDetWeight', 'BinaryApproxSign', -1)
    """

    method_weight: ClassVar[QuantizerConfig] = 'BiDetWeight'
    method_activation: ClassVar[str | dict[str, Any]] = 'BinaryApproxSign'
    method_pad_value: ClassVar[int] = -1


@MODELS.register_module()
class BiDetLinear(BinaryLinear, nn.Linear):
    """BiDet's linear layer, with the quantizers of :class:`BiDetConv2d`.

    Source: the released code of BiDet (Wang et al., CVPR 2020).

    Example:
        >>> BiDetLinear(16, 4).weight_bits
        1
    """

    method_weight: ClassVar[QuantizerConfig] = BiDetConv2d.method_weight
    method_activation: ClassVar[str | dict[str, Any]] = BiDetConv2d.method_activation
