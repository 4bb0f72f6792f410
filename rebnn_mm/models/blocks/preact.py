"""The pre-activation block: XNOR-Net's order of batch norm, sign and convolution."""

from typing import Any

from mmcv.cnn import build_norm_layer
from torch import Tensor

from rebnn_mm.registry import BLOCKS

from .base import BinaryBasicBlock, Config


@BLOCKS.register_module(name=['BinaryPreActBlock', 'preact'])
class BinaryPreActBlock(BinaryBasicBlock):
    r"""BN, sign, convolution; twice, under one shortcut.

    .. math::
        z = \mathrm{conv}_2(\mathrm{BN}_2(\mathrm{conv}_1(\mathrm{BN}_1(x)))) + s(x)

    The norm in front centres what is binarised. The first norm has the channels of the input, so that of a block that
    widens is not filled from a torchvision checkpoint.

    Example:
        >>> import torch
        >>> block = BinaryPreActBlock(8, 16, stride=2, conv_cfg=dict(type='XNORConv2d'))
        >>> block(torch.randn(1, 8, 6, 5)).shape, block.bn1.num_features
        (torch.Size([1, 16, 3, 3]), 8)

    Source: Rastegari et al. 2016 (order of layers); He et al. 2016 (identity mappings).
    """

    def __init__(self, in_channels: int, out_channels: int, *, norm_cfg: Config | None = None, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, norm_cfg=norm_cfg, **kwargs)
        if in_channels != out_channels:
            self.bn1 = build_norm_layer(norm_cfg or dict(type='BN'), in_channels)[1]

    def forward_block(self, x: Tensor) -> Tensor:
        """The block without checkpointing: (N, in_channels, H, W) to (N, out_channels, H', W')."""
        y = self.act1(self.conv1(self.bn1(x)))
        return self.act2(self.conv2(self.bn2(y))) + self.downsample(self.pool(x))
