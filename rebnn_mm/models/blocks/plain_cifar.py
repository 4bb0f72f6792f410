"""The real-valued block of the original ResNets for CIFAR."""

from typing import Any

from torch import Tensor, nn

from rebnn_mm.registry import BLOCKS

from .padded_shortcut import PaddedShortcut
from .relu import BinaryReLUBlock


@BLOCKS.register_module(name=['PlainCIFARBlock', 'plain_cifar'])
class PlainCIFARBlock(BinaryReLUBlock):
    r"""Two convolutions under one shortcut without parameters, ReLU after the first and after the addition.

    .. math::
        y = \max(\mathrm{BN}_1(\mathrm{conv}_1(x)), 0) \qquad z = \max(\mathrm{BN}_2(\mathrm{conv}_2(y)) + s(x), 0)

    :math:`s` is the identity or :class:`PaddedShortcut`. The reference network of the CIFAR-10 tables; binary networks
    want a shortcut for each convolution.

    Example:
        >>> import torch
        >>> PlainCIFARBlock(8, 16, stride=2)(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: He et al. 2016, section 4.2.
    """

    def __init__(self, in_channels: int, out_channels: int, *, stride: int = 1, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, stride=stride, **kwargs)
        if stride != 1 or in_channels != out_channels:
            self.pool = nn.Identity()
            self.downsample = PaddedShortcut(in_channels, out_channels, stride)

    def forward_block(self, x: Tensor) -> Tensor:
        """The block without checkpointing: (N, in_channels, H, W) to (N, out_channels, H', W')."""
        y = self.act1(self.bn1(self.conv1(x)))
        return self.act2(self.bn2(self.conv2(y)) + self.downsample(x))
