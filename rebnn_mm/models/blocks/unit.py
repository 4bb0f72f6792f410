"""One convolution of a block style, for networks whose layers do not come in pairs."""

from typing import Any

from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from torch import Tensor

from .base import BinaryBasicBlock
from .shortcut import build_shortcut

Config = dict[str, Any]


class BinaryUnit(BaseModule):
    r"""A 3x3 convolution in the style of a block, with or without a shortcut.

    .. math:: y = a(\mathrm{BN}(\mathrm{conv}(x)) + s(x)) \quad \text{or} \quad y = a(\mathrm{BN}(\mathrm{conv}(x)))

    :math:`a`, and the shift in front of the sign, are those of the style; :math:`s` is as in
    :class:`BinaryBasicBlock`: the identity where the shapes agree, else average pooling, a real 1x1 convolution and a
    norm.

    Args:
        style: a block of the style, asked for its activation and shift and not kept.
        in_channels: channels of the input, shape (N, in_channels, H, W).
        out_channels: channels of the output, shape (N, out_channels, ceil(H / stride), ceil(W / stride)).
        stride: stride of the convolution.
        shortcut: whether to add :math:`s(x)`.
        conv_cfg: the convolution; None makes it real.
        norm_cfg: every norm layer.
        init_cfg: initialisation, see mmengine.

    Raises:
        ValueError: the style puts one shortcut over two convolutions or orders its layers otherwise.

    Example:
        >>> import torch
        >>> from rebnn_mm.models import BinaryReActBlock
        >>> unit = BinaryUnit(BinaryReActBlock(1, 1), 8, 16, stride=2, conv_cfg=dict(type='ReBNNConv2d'))
        >>> unit(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])
    """

    def __init__(
        self,
        style: BinaryBasicBlock,
        in_channels: int,
        out_channels: int,
        *,
        stride: int = 1,
        shortcut: bool = True,
        conv_cfg: Config | None = None,
        norm_cfg: Config | None = None,
        init_cfg: Config | list[Config] | None = None,
    ) -> None:
        super().__init__(init_cfg)
        if type(style).forward_block is not BinaryBasicBlock.forward_block:
            raise ValueError(
                f'BinaryUnit: {type(style).__name__} is made for two convolutions, and here each stands alone. Use a '
                "style with one shortcut per convolution ('bireal', 'react', 'hardtanh', 'relu'); shortcut=False "
                'leaves its shortcut out.'
            )
        norm_cfg = norm_cfg or dict(type='BN')
        self.shortcut = shortcut
        self.conv = build_conv_layer(
            style.with_activation(conv_cfg), in_channels, out_channels, 3, stride=stride, padding=1, bias=False
        )
        self.bn = build_norm_layer(norm_cfg, out_channels)[1]
        self.act = style.build_act(out_channels)
        if shortcut:
            self.pool, self.downsample = build_shortcut(in_channels, out_channels, stride, norm_cfg)

    def forward(self, x: Tensor) -> Tensor:
        """Run the unit; see the class for shapes."""
        y = self.bn(self.conv(x))
        return self.act(y + self.downsample(self.pool(x)) if self.shortcut else y)
