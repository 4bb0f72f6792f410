"""The block of RBNN and ReCU: Hardtanh after each addition."""

from torch import nn

from rebnn_mm.registry import BLOCKS

from .base import BinaryBasicBlock


@BLOCKS.register_module(name=['BinaryHardtanhBlock', 'hardtanh'])
class BinaryHardtanhBlock(BinaryBasicBlock):
    r"""Sign, convolution, BN, shortcut, Hardtanh; twice.

    Hardtanh keeps what the next sign sees within [-1, 1], where its straight-through gradient is not zero.

    Example:
        >>> import torch
        >>> block = BinaryHardtanhBlock(8, 8, conv_cfg=dict(type='ReCUConv2d'))
        >>> float(block(torch.randn(1, 8, 6, 5)).detach().abs().max()) <= 1
        True

    Source: Xu et al. 2021 (ReCU) and Lin et al. 2020 (RBNN), released networks; the paper's one-stage setting follows
    ReCU.
    """

    def build_act(self, channels: int) -> nn.Module:
        """Hardtanh."""
        return nn.Hardtanh()
