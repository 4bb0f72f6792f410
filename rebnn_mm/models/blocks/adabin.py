"""The block of AdaBin's CIFAR-10 networks: Maxout after each addition, shortcuts without parameters."""

from typing import Any

from torch import nn

from rebnn_mm.layers import BinaryMaxout
from rebnn_mm.registry import BLOCKS

from .base import BinaryBasicBlock
from .padded_shortcut import PaddedShortcut


@BLOCKS.register_module(name=['BinaryAdaBinBlock', 'adabin'])
class BinaryAdaBinBlock(BinaryBasicBlock):
    r"""Quantizer, convolution, BN, shortcut, Maxout; twice.

    Example:
        >>> import torch
        >>> binary = dict(type='BinaryConv2d', weight='AdaBinWeight', activation='AdaBinActivation')
        >>> block = BinaryAdaBinBlock(8, 16, stride=2, conv_cfg=binary)
        >>> block(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: Tu et al. 2022 (AdaBin), released CIFAR-10 network.
    """

    def __init__(self, in_channels: int, out_channels: int, *, stride: int = 1, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, stride=stride, **kwargs)
        if stride != 1 or in_channels != out_channels:
            self.pool = nn.Identity()
            self.downsample = PaddedShortcut(in_channels, out_channels, stride)

    def build_act(self, channels: int) -> nn.Module:
        """Maxout on (N, channels, H, W)."""
        return BinaryMaxout(channels)
