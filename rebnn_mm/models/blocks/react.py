"""The block of ReActNet: RSign before each convolution, RPReLU after each addition."""

from typing import ClassVar

from torch import nn

from rebnn_mm.layers import BinaryRPReLU
from rebnn_mm.registry import BLOCKS

from .base import BinaryBasicBlock


@BLOCKS.register_module(name=['BinaryReActBlock', 'react'])
class BinaryReActBlock(BinaryBasicBlock):
    r"""RSign, convolution, BN, shortcut, RPReLU; twice.

    RSign is the activation quantizer inside the binary convolution, with its shift. That starts at zero: the shortcut
    carries values of both signs, so nothing has to be calibrated.

    Example:
        >>> import torch
        >>> block = BinaryReActBlock(8, 16, stride=2, conv_cfg=dict(type='ReBNNConv2d'))
        >>> block(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: Liu et al. 2020, ReActNet, Figure 4; the paper's two-stage setting.
    """

    input_shift: ClassVar[str | None] = 'zero'

    def build_act(self, channels: int) -> nn.Module:
        """RPReLU on (N, channels, H, W)."""
        return BinaryRPReLU(channels)
