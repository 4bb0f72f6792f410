"""BNext: units of a binary convolution that squeeze and excitation recouples with their input."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.layers import SqueezeExcite
from rebnn_mm.models.blocks import BinaryReActBlock
from rebnn_mm.models.shortcuts import shortcut_pool

from ...errors import RebnnError
from .staged_backbone import Config, StagedBackbone

WIDTHS = (2, 4, 8, 16, 32)
"""Channels of each stage in multiples of the stem's; every stage but the first halves the resolution."""

ARCHS = {
    'tiny': (32, (1, 2, 2, 6, 2)),
    'small': (48, (1, 2, 2, 6, 2)),
    'middle': (48, (1, 4, 4, 8, 4)),
    'large': (48, (1, 4, 4, 16, 4)),
}
"""Channels of the stem, and blocks of each stage."""


class BNextUnit(BaseModule):
    r"""A binary convolution whose output is weighed by what it and its input show together.

    .. math::
        z = \mathrm{PReLU}(\mathrm{BN}_1(\mathrm{conv}(x))), \quad
        v = \mathrm{SE}(m \, p(x) + (1 - m) z) \, z, \quad
        y = \begin{cases} \mathrm{BN}_2(v) + p(x) & \\
        \mathrm{BN}_2(v \, r) + r & \text{with attention, where } r = p(\mathrm{PReLU}(x)) \end{cases}

    :math:`p` is average pooling where the convolution has a stride, :math:`m` a learned share per channel, which is
    kept within [0, 1] in training.

    Source: Guo et al. 2022 (BNext), released code.
    """

    param_roles: ClassVar[dict[str, str]] = {'mix': 'shift'}

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        *,
        stride: int = 1,
        attention: bool = False,
        conv_cfg: Config | None = None,
        norm_cfg: Config = dict(type='BN'),
    ) -> None:
        super().__init__()
        conv_cfg = BinaryReActBlock.with_activation(conv_cfg)
        shape = dict(stride=stride, padding=kernel_size // 2, bias=False)
        self.conv = build_conv_layer(conv_cfg, channels, channels, kernel_size, **shape)
        self.bn1 = build_norm_layer(norm_cfg, channels)[1]
        self.act = nn.PReLU(channels)
        self.se = SqueezeExcite(channels)
        self.mix = nn.Parameter(torch.full((channels, 1, 1), 0.5))
        self.bn2 = build_norm_layer(norm_cfg, channels)[1]
        self.attend = nn.PReLU(channels) if attention else None
        self.pool = shortcut_pool(stride)

    def forward(self, x: Tensor) -> Tensor:
        """Run the unit; see the class for shapes."""
        if self.training:
            self.mix.data.clamp_(0, 1)
        z = self.act(self.bn1(self.conv(x)))
        pooled = self.pool(x)
        v = self.se(self.mix * pooled + (1 - self.mix) * z) * z
        if self.attend is None:
            return self.bn2(v) + pooled
        residual = self.pool(self.attend(x))
        return self.bn2(v * residual) + residual


class BNextBlock(BaseModule):
    """A 3x3 unit, and one or two 1x1 units after it, whose outputs are concatenated.

    Source: Guo et al. 2022 (BNext), released code.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, stride: int = 1, attention: bool = False, **kwargs: Any
    ) -> None:
        super().__init__()
        self.spatial = BNextUnit(in_channels, 3, stride=stride, attention=attention, **kwargs)
        self.pointwise = nn.ModuleList(BNextUnit(in_channels, 1, **kwargs) for _ in range(out_channels // in_channels))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block; see the class for shapes."""
        y = self.spatial(x)
        outs = [unit(y) for unit in self.pointwise]
        return torch.cat(outs, dim=1) if len(outs) > 1 else outs[0]


@MODELS.register_module()
class BNext(StagedBackbone):
    """BNext-T, S, M or L: a real 3x3 convolution with stride 2, then five stages of blocks; a PReLU ends the last one.

    Real are the stem and squeeze and excitation. The stages have 2, 4, 8, 16 and 32 times the channels of the stem and
    strides 2, 4, 8, 16 and 32; detectors take the last four (``out_indices=(1, 2, 3, 4)``). Every second block, from
    the second on, multiplies by its input.

    Args:
        arch: ``'tiny'``, ``'small'``, ``'middle'`` or ``'large'``.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        base_channels: channels of the stem; None for those of ``arch``.
        out_indices, **kwargs: see :class:`StagedBackbone` (``frozen_stages``, ``norm_eval``, ``init_cfg``).
        conv_cfg: the convolutions of the units; None makes them real.
        norm_cfg: every norm layer.

    Raises:
        ValueError: an unknown ``arch``, a stem too narrow for squeeze and excitation, or indices that name no stage.

    Example:
        >>> net = BNext('tiny', base_channels=8).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 64, 64))]
        [(1, 32, 16, 16), (1, 64, 8, 8), (1, 128, 4, 4), (1, 256, 2, 2)]

    Source: Guo et al. 2022 (BNext), released code.
    """

    stem_parts = ('conv1', 'bn1')

    def __init__(
        self,
        arch: str = 'tiny',
        *,
        in_channels: int = 3,
        base_channels: int | None = None,
        out_indices: Sequence[int] = (1, 2, 3, 4),
        conv_cfg: Config | None = dict(type='BNextConv2d'),
        norm_cfg: Config = dict(type='BN'),
        **kwargs: Any,
    ) -> None:
        if arch not in ARCHS:
            raise RebnnError(f'BNext: arch={arch!r} is unknown. Use one of {", ".join(map(repr, ARCHS))}.')
        channels, depths = ARCHS[arch]
        channels = base_channels or channels
        if channels < 8:
            raise RebnnError(f'BNext: base_channels={channels} leaves nothing of an eighth of them; use 8 or more.')
        super().__init__(len(WIDTHS), out_indices=out_indices, **kwargs)
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=2, padding=1, bias=False)
        self.bn1 = build_norm_layer(norm_cfg, channels)[1]
        first = channels
        index = 0
        for stage, (width, blocks) in enumerate(zip(WIDTHS, depths, strict=True)):
            layers: list[nn.Module] = []
            for i in range(blocks):
                index += 1
                place: Config = dict(stride=2 if stage and not i else 1, attention=index % 2 == 0)
                layers.append(BNextBlock(channels, first * width, **place, conv_cfg=conv_cfg, norm_cfg=norm_cfg))
                channels = first * width
            if stage == len(WIDTHS) - 1:
                layers.append(nn.PReLU(channels))
            self.add_stage(nn.Sequential(*layers))
        self.freeze_stages()
