"""The ordinary residual block, one shortcut for two convolutions: BNN."""

from torch import Tensor

from rebnn_mm.registry import BLOCKS

from .hardtanh import BinaryHardtanhBlock


@BLOCKS.register_module(name=['BinarySingleShortcutBlock', 'single'])
class BinarySingleShortcutBlock(BinaryHardtanhBlock):
    r"""Two convolutions under one shortcut.

    .. math::
        y = \mathrm{Hardtanh}(\mathrm{BN}_1(\mathrm{conv}_1(x))) \qquad
        z = \mathrm{Hardtanh}(\mathrm{BN}_2(\mathrm{conv}_2(y)) + s(x))

    Example:
        >>> import torch
        >>> block = BinarySingleShortcutBlock(8, 16, stride=2, conv_cfg=dict(type='BNNConv2d'))
        >>> block(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: He et al. 2016, basic block, with the Hardtanh of Courbariaux et al. 2016 in place of the ReLU.
    """

    def forward_block(self, x: Tensor) -> Tensor:
        """The block without checkpointing: (N, in_channels, H, W) to (N, out_channels, H', W')."""
        y = self.act1(self.bn1(self.conv1(x)))
        return self.act2(self.bn2(self.conv2(y)) + self.downsample(self.pool(x)))
