"""ResNets of binary bottlenecks: two streams, so that every convolution has a shortcut of its width."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmcv.cnn import build_activation_layer, build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.models.blocks import BinaryBasicBlock
from rebnn_mm.models.shortcuts import pooled_shortcut
from rebnn_mm.models.stages import block_style

from ...errors import RebnnError
from .staged_backbone import Config, StagedBackbone

STAGE_BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
EXPANSION = 4

Streams = tuple[Tensor, Tensor]
"""The narrow stream, as wide as the inside of a bottleneck, and the wide one, four times that."""


class LeakyClip(nn.Module):
    r"""The identity within one, with a slope of a tenth beyond.

    .. math:: y = 0.1 \, x + 0.9 \, clamp(x, -1, 1)

    Source: Liu et al. 2018 (Bi-Real Net), where it leads from ReLU to the sign.
    """

    def forward(self, x: Tensor) -> Tensor:
        return 0.1 * x + 0.9 * x.clamp(-1, 1)


class BinaryBottleneck(BaseModule):
    r"""1x1, 3x3 and 1x1 convolution between two streams, each with a shortcut.

    .. math::
        o_1 &= a_1(\mathrm{BN}_1(\mathrm{conv}_1(x_2)) + u(x_1)) \\
        o_2 &= a_2(\mathrm{BN}_2(\mathrm{conv}_2(o_1)) + \mathrm{pool}(o_1)) \\
        o_3 &= a_3(\mathrm{BN}_3(\mathrm{conv}_3(o_2)) + s(x_2))

    The narrow stream goes on with :math:`o_2`, the wide one with :math:`o_3`. An ordinary bottleneck has the last
    shortcut only; its inner signs pass through two convolutions that nothing bypasses. Where a stage begins,
    :math:`u` is a real 1x1 convolution, and :math:`s` average pooling, a real 1x1 convolution and a norm.

    The first block of a network has one stream to start from: its first convolution is real, takes that stream through
    :class:`LeakyClip` and has no shortcut.

    Convolutions and norms are named as in torchvision's ``Bottleneck``.

    Source: Liu et al. 2018 (Bi-Real Net), the ResNet-50 that its authors released in addition to the paper's networks.
    """

    def __init__(
        self,
        style: type[BinaryBasicBlock],
        in_channels: int,
        width: int,
        *,
        stride: int = 1,
        first: bool = False,
        begins: bool = False,
        conv_cfg: Config | None = None,
        norm_cfg: Config = dict(type='BN'),
        **options: Any,
    ) -> None:
        super().__init__()
        conv_cfg = style.with_activation(conv_cfg)
        out_channels = EXPANSION * width
        self.first = first
        self.clip = LeakyClip() if first else nn.Identity()
        self.conv1 = build_conv_layer(None if first else conv_cfg, in_channels, width, 1, bias=False)
        self.bn1 = build_norm_layer(norm_cfg, width)[1]
        self.act1 = style.build_act(width, **options)
        self.conv2 = build_conv_layer(conv_cfg, width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = build_norm_layer(norm_cfg, width)[1]
        self.act2 = style.build_act(width, **options)
        self.conv3 = build_conv_layer(conv_cfg, width, out_channels, 1, bias=False)
        self.bn3 = build_norm_layer(norm_cfg, out_channels)[1]
        self.act3 = style.build_act(out_channels, **options)
        self.widen = nn.Conv2d(width // 2, width, 1, bias=False) if begins and not first else nn.Identity()
        self.pool, self.downsample = pooled_shortcut(in_channels, out_channels, stride, norm_cfg)

    def forward(self, streams: Streams) -> Streams:
        """Both streams after the block; see the class for shapes."""
        narrow, wide = streams
        y = self.bn1(self.conv1(self.clip(wide)))
        y = self.act1(y if self.first else y + self.widen(narrow))
        z = self.act2(self.bn2(self.conv2(y)) + self.pool(y))
        return z, self.act3(self.bn3(self.conv3(z)) + self.downsample(self.pool(wide)))


@MODELS.register_module()
class BinaryBottleneckResNet(StagedBackbone):
    """ResNet-50, 101 or 152 with binary bottlenecks; with ``block='bireal'`` and depth 50 it is Bi-Real-50.

    Real are the stem, the first 1x1 convolution of the first block, and where a stage begins the 1x1 convolution of
    each stream. The maps are those of the wide stream. Parameters are named as in torchvision, so
    ``init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet50')`` fills all but the 1x1 convolutions of the
    narrow stream.

    Args:
        depth: 50, 101 or 152.
        block: block style that chooses what follows an addition and the shift before each sign, see
            :class:`BinaryResNet`; one with a shortcut for each convolution.
        stem_act: activation layer after the stem's BN; None for none, as in Bi-Real Net.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        base_channels: channels of the stem; the maps have 4, 8, 16 and 32 times as many.
        out_indices, **kwargs: see :class:`StagedBackbone` (``frozen_stages``, ``norm_eval``, ``init_cfg``).
        conv_cfg: the convolutions of the bottlenecks; None makes them real.
        norm_cfg: every norm layer.

    Raises:
        ValueError: an unknown block style, an unknown depth, or indices that name no stage.

    Example:
        >>> import torch
        >>> net = BinaryBottleneckResNet(50, base_channels=8).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 64, 64))]
        [(1, 32, 16, 16), (1, 64, 8, 8), (1, 128, 4, 4), (1, 256, 2, 2)]

    Source: as :class:`BinaryBottleneck`.
    """

    stem_parts = ('conv1', 'bn1', 'stem_act', 'maxpool')

    def __init__(
        self,
        depth: int,
        *,
        block: str | Mapping[str, Any] = 'bireal',
        stem_act: Config | None = None,
        in_channels: int = 3,
        base_channels: int = 64,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        **kwargs: Any,
    ) -> None:
        if depth not in STAGE_BLOCKS:
            raise RebnnError(
                f'BinaryBottleneckResNet: depth={depth} is not available. Use one of {sorted(STAGE_BLOCKS)}, or '
                'BinaryResNet for 18 and 34.'
            )
        super().__init__(len(STAGE_BLOCKS[depth]), out_indices=out_indices, **kwargs)
        style, options = block_style(block)
        options.update(conv_cfg=conv_cfg, norm_cfg=norm_cfg)
        self.conv1 = nn.Conv2d(in_channels, base_channels, 7, stride=2, padding=3, bias=False)
        self.bn1 = build_norm_layer(norm_cfg, base_channels)[1]
        self.stem_act = nn.Identity() if stem_act is None else build_activation_layer(stem_act)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        channels = base_channels
        for stage, blocks in enumerate(STAGE_BLOCKS[depth]):
            width = base_channels * 2**stage
            layers = []
            for i in range(blocks):
                place: Config = dict(stride=2 if stage and not i else 1, first=not stage and not i, begins=not i)
                layers.append(BinaryBottleneck(style, channels, width, **place, **options))
                channels = EXPANSION * width
            self.add_stage(nn.Sequential(*layers))
        self.freeze_stages()

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Maps of the wide stream after the stages in ``out_indices``, from (N, in_channels, H, W)."""
        x = self.forward_stem(x)
        streams, outs = (x, x), []
        for i, name in enumerate(self.stages):
            streams = getattr(self, name)(streams)
            if i in self.out_indices:
                outs.append(streams[1])
        return tuple(outs)
