"""ReActNet-A's body: MobileNet without depthwise convolutions, widened by duplicating channels."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.layers.memory import memory_of, run_block
from rebnn_mm.models.blocks import BinaryBasicBlock
from rebnn_mm.models.shortcuts import shortcut_pool
from rebnn_mm.models.stages import block_style, stack_blocks

from ...errors import RebnnError
from .staged_backbone import Config, StagedBackbone

STAGES = ((2, 1, 1), (4, 2, 2), (8, 2, 2), (16, 6, 2), (32, 2, 2))
"""Channels in multiples of the stem's, number of blocks and stride of each stage."""


class BinaryMobileBlock(BaseModule):
    r"""A 3x3 and a 1x1 convolution, each with a shortcut without parameters.

    .. math::
        y = a_1(\mathrm{BN}_1(\mathrm{conv}_{3 \times 3}(x)) + \mathrm{pool}(x)) \qquad
        z = a_2(\mathrm{BN}_2(\mathrm{conv}_{1 \times 1}(y)) + [y] \text{ or } [y, y])

    Where the block widens, y is added to both halves of twice as many channels. ReActNet's code makes the halves with
    two convolutions that share a sign and have a norm each: the same function and the same parameters.

    Source: Liu et al. 2020 (ReActNet), Figure 5.
    """

    def __init__(
        self,
        style: type[BinaryBasicBlock],
        in_channels: int,
        out_channels: int,
        *,
        stride: int = 1,
        conv_cfg: Config | None = None,
        norm_cfg: Config = dict(type='BN'),
        **options: Any,
    ) -> None:
        super().__init__()
        if out_channels not in (in_channels, 2 * in_channels):
            raise RebnnError(
                f'BinaryMobileBlock: {out_channels} output channels for {in_channels} are neither as many nor twice '
                'as many, which is all that duplicating can give.'
            )
        conv_cfg = style.with_activation(conv_cfg)
        self.widens = out_channels != in_channels
        self.conv1 = build_conv_layer(conv_cfg, in_channels, in_channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = build_norm_layer(norm_cfg, in_channels)[1]
        self.act1 = style.build_act(in_channels, **options)
        self.conv2 = build_conv_layer(conv_cfg, in_channels, out_channels, 1, bias=False)
        self.bn2 = build_norm_layer(norm_cfg, out_channels)[1]
        self.act2 = style.build_act(out_channels, **options)
        self.pool = shortcut_pool(stride)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block; see the class for shapes."""
        return run_block(self._block, x, [self], memory_of(self.conv1, self.conv2))

    def _block(self, x: Tensor) -> Tensor:
        y = self.act1(self.bn1(self.conv1(x)) + self.pool(x))
        return self.act2(self.bn2(self.conv2(y)) + (torch.cat([y, y], dim=1) if self.widens else y))


@MODELS.register_module()
class BinaryMobileNet(StagedBackbone):
    """ReActNet-A: a real 3x3 convolution with stride 2 and BN, then thirteen blocks of a 3x3 and a 1x1 convolution.

    Nothing else is real: shortcuts have no parameters. The stages have 2, 4, 8, 16 and 32 times the channels of the
    stem and strides 2, 4, 8, 16 and 32; detectors take the last four (``out_indices=(1, 2, 3, 4)``).

    Args:
        block: block style that chooses what follows an addition and the shift before each sign, see
            :class:`BinaryResNet`.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        base_channels: channels of the stem.
        out_indices, **kwargs: see :class:`StagedBackbone` (``frozen_stages``, ``norm_eval``, ``init_cfg``).
        conv_cfg: the convolutions of the blocks; None makes them real.
        norm_cfg: every norm layer.

    Raises:
        ValueError: an unknown block style, indices that name no stage.

    Example:
        >>> net = BinaryMobileNet(base_channels=8).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 64, 64))]
        [(1, 32, 16, 16), (1, 64, 8, 8), (1, 128, 4, 4), (1, 256, 2, 2)]

    Source: Liu et al. 2020 (ReActNet), Figure 5 and section 4.1.
    """

    stem_parts = ('conv1', 'bn1')

    def __init__(
        self,
        *,
        block: str | Mapping[str, Any] = 'react',
        in_channels: int = 3,
        base_channels: int = 32,
        out_indices: Sequence[int] = (1, 2, 3, 4),
        conv_cfg: Config | None = dict(type='ReActConv2d'),
        norm_cfg: Config = dict(type='BN'),
        **kwargs: Any,
    ) -> None:
        super().__init__(len(STAGES), out_indices=out_indices, **kwargs)
        style, options = block_style(block)
        options.update(conv_cfg=conv_cfg, norm_cfg=norm_cfg)
        self.conv1 = nn.Conv2d(in_channels, base_channels, 3, stride=2, padding=1, bias=False)
        self.bn1 = build_norm_layer(norm_cfg, base_channels)[1]
        block_of_style = partial(BinaryMobileBlock, style)
        channels = base_channels
        for width, blocks, stride in STAGES:
            out_channels = base_channels * width
            self.add_stage(stack_blocks(block_of_style, channels, out_channels, blocks, stride=stride, **options))
            channels = out_channels
        self.freeze_stages()
