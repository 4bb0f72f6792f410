"""QuickNet: a network for binary engines, whose blocks keep resolution and width and nothing else is binary."""

from collections.abc import Sequence
from typing import Any

import torch
from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional

from ...errors import RebnnError
from .staged_backbone import Config, StagedBackbone

LARQ = dict(
    type='BinaryConv2d',
    weight=dict(type='BNNWeight', bound=1.25),
    activation=dict(type='BinaryWideSign', width=1.25),
    pad_value=1,
)
"""The convolution of the released networks: signs without a factor, weights and gradients cut off at 1.25, borders
padded with +1."""

ARCHS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    'small': ((32, 64, 256, 512), (4, 4, 4, 4)),
    'base': ((64, 128, 256, 512), (4, 4, 4, 4)),
    'large': ((64, 128, 256, 512), (6, 8, 12, 6)),
}
"""Channels and blocks of each stage."""


class BlurPool(nn.Module):
    r"""Halves the resolution with a fixed binomial filter, :math:`(1, 2, 1) / 4` in both directions.

    Source: Zhang 2019 (making convolutional networks shift-invariant again).
    """

    kernel: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        line = torch.tensor([0.25, 0.5, 0.25])
        self.register_buffer('kernel', torch.outer(line, line).expand(channels, 1, 3, 3).clone(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """The smaller map."""
        return functional.conv2d(x, self.kernel, stride=2, padding=1, groups=len(self.kernel))


class QuickNetBlock(BaseModule):
    r"""A 3x3 convolution and its shortcut.

    .. math:: y = \mathrm{BN}(\max(\mathrm{conv}(x), 0)) + x

    Source: Bannink et al. 2021 (Larq Compute Engine), released code.
    """

    def __init__(self, channels: int, *, conv_cfg: Config | None = None, norm_cfg: Config = dict(type='BN')) -> None:
        super().__init__()
        self.conv = build_conv_layer(conv_cfg, channels, channels, 3, padding=1, bias=False)
        self.bn = build_norm_layer(norm_cfg, channels)[1]

    def forward(self, x: Tensor) -> Tensor:
        """Run the block; see the class for shapes."""
        return self.bn(self.conv(x).relu()) + x


def transition(in_channels: int, out_channels: int, norm_cfg: Config) -> nn.Sequential:
    """From one stage to the next: ReLU, maximum, blurring to half the resolution, real 1x1 convolution and a norm."""
    return nn.Sequential(
        nn.ReLU(),
        nn.MaxPool2d(2, stride=1),
        BlurPool(in_channels),
        nn.Conv2d(in_channels, out_channels, 1, bias=False),
        build_norm_layer(norm_cfg, out_channels)[1],
    )


@MODELS.register_module()
class QuickNet(StagedBackbone):
    """QuickNet in three sizes: a stem of stride 4, then four stages; a ReLU ends the last one.

    Real are the stem (3x3, depthwise 3x3 and 1x1 convolution) and the 1x1 convolutions between stages. Maps have
    strides 4, 8, 16 and 32.

    The released weights were trained by Keras, which pads the two strided convolutions of the stem at the right and at
    the bottom only; here both sides are padded alike, unless ``stem_cfg`` is ``dict(type='Conv2dAdaptivePadding')``.

    Args:
        arch: ``'small'``, ``'base'`` or ``'large'``.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        width: factor of all channels.
        out_indices, **kwargs: see :class:`StagedBackbone` (``frozen_stages``, ``norm_eval``, ``init_cfg``).
        conv_cfg: the convolutions of the blocks, :data:`LARQ` by default; None makes them real.
        stem_cfg: the strided convolutions of the stem.
        norm_cfg: every norm layer but the stem's second, which is a BN without factors.

    Raises:
        ValueError: an unknown ``arch``, or indices that name no stage.

    Example:
        >>> net = QuickNet('small', width=0.25).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 64, 64))]
        [(1, 8, 16, 16), (1, 16, 8, 8), (1, 64, 4, 4), (1, 128, 2, 2)]

    Source: Bannink et al. 2021 (Larq Compute Engine), released code.
    """

    stem_parts = ('stem',)

    def __init__(
        self,
        arch: str = 'base',
        *,
        in_channels: int = 3,
        width: float = 1.0,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        conv_cfg: Config | None = LARQ,
        stem_cfg: Config | None = None,
        norm_cfg: Config = dict(type='BN'),
        **kwargs: Any,
    ) -> None:
        if arch not in ARCHS:
            raise RebnnError(f'QuickNet: arch={arch!r} is unknown. Use one of {", ".join(map(repr, ARCHS))}.')
        channels, depths = ARCHS[arch]
        channels = tuple(round(width * each) for each in channels)
        super().__init__(len(depths), out_indices=out_indices, **kwargs)
        narrow = channels[0] // 4
        self.stem = nn.Sequential(
            build_conv_layer(stem_cfg, in_channels, narrow, 3, stride=2, padding=1, bias=False),
            build_norm_layer(norm_cfg, narrow)[1],
            nn.ReLU(),
            build_conv_layer(stem_cfg, narrow, narrow, 3, stride=2, padding=1, groups=narrow, bias=False),
            nn.BatchNorm2d(narrow, affine=False),
            nn.Conv2d(narrow, channels[0], 1, bias=False),
            build_norm_layer(norm_cfg, channels[0])[1],
        )
        before = channels[0]
        for i, (out_channels, blocks) in enumerate(zip(channels, depths, strict=True)):
            layers: list[nn.Module] = [transition(before, out_channels, norm_cfg)] if i else []
            layers += [QuickNetBlock(out_channels, conv_cfg=conv_cfg, norm_cfg=norm_cfg) for _ in range(blocks)]
            if i == len(depths) - 1:
                layers.append(nn.ReLU())
            self.add_stage(nn.Sequential(*layers))
            before = out_channels
        self.freeze_stages()
