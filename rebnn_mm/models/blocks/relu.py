"""The block with a ReLU after each addition: DoReFa-Net and real-valued networks of the same structure."""

from torch import nn

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.registry import BLOCKS

from .base import BinaryBasicBlock, Config


@BLOCKS.register_module(name=['BinaryReLUBlock', 'relu'])
class BinaryReLUBlock(BinaryBasicBlock):
    r"""Quantizer, convolution, BN, shortcut, ReLU; twice.

    For quantizers of non-negative values, and for the real-valued twin (``conv_cfg=None``) of a binary network. A
    plain sign behind its ReLU would be +1 everywhere; 1-bit layers therefore get a learnable shift, started from data.

    Example:
        >>> import torch
        >>> block = BinaryReLUBlock(8, 8)
        >>> float(block(torch.randn(1, 8, 6, 5)).detach().min()) >= 0
        True

    Source: He et al. 2016, basic block, with Bi-Real Net's one shortcut per convolution.
    """

    def activation_of(self, layer: type[BinaryConv2d]) -> Config:
        """What the method's layer gets in any network with ReLUs."""
        return layer.stock_activation()

    def build_act(self, channels: int) -> nn.Module:
        """ReLU."""
        return nn.ReLU(inplace=True)
