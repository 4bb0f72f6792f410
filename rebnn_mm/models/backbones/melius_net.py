"""MeliusNet: binary convolutions that add channels, and others that improve the channels just added."""

from collections.abc import Sequence
from typing import Any

import torch
from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from ...errors import RebnnError
from .staged_backbone import Config, StagedBackbone

MELIUS = dict(
    type='BinaryConv2d', weight=dict(type='BNNWeight', bound=1.3), activation=dict(type='BinaryWideSign', width=1.3)
)
"""The convolution of the released networks: signs without a factor, weights and gradients cut off at 1.3."""

STAGES: dict[int, tuple[tuple[int, float], ...]] = {22: ((4, 2.5), (5, 3.5), (4, 4), (4, 0))}
"""Blocks of each stage, and the channels that the transition after it leaves, in multiples of the stem's."""


class MeliusBlock(BaseModule):
    r"""A dense convolution and an improving one.

    .. math::
        y = [x, \mathrm{conv}_1(\mathrm{BN}_1(x))] \qquad
        z = y + [0, \mathrm{conv}_2(\mathrm{BN}_2(y))]

    Source: Bethge et al. 2020 (MeliusNet), section 3.
    """

    def __init__(
        self, in_channels: int, growth: int, *, conv_cfg: Config | None = None, norm_cfg: Config = dict(type='BN')
    ) -> None:
        super().__init__()
        self.kept = in_channels
        self.bn1 = build_norm_layer(norm_cfg, in_channels)[1]
        self.conv1 = build_conv_layer(conv_cfg, in_channels, growth, 3, padding=1, bias=False)
        self.bn2 = build_norm_layer(norm_cfg, in_channels + growth)[1]
        self.conv2 = build_conv_layer(conv_cfg, in_channels + growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block; see the class for shapes."""
        added = self.conv1(self.bn1(x))
        improvement = self.conv2(self.bn2(torch.cat([x, added], dim=1)))
        return torch.cat([x, added + improvement], dim=1)


@MODELS.register_module()
class MeliusNet(StagedBackbone):
    """MeliusNet-22: a real stem of stride 4, then four stages; BN and ReLU end the last one.

    Full-precision are the stem (3x3, and two grouped 3x3 convolutions) and the 1x1 convolutions after the first three
    stages. Maps have strides 4, 8, 16 and 32, and 320, 480, 480 and 512 channels.

    Larq Zoo's network pools 2x2 positions in the stem, where the authors' pools 3x3, and pads its strided convolution
    at the right and at the bottom only: ``stem_cfg=dict(type='Conv2dAdaptivePadding')`` and ``stem_pool=2``.

    Args:
        depth: 22.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        base_channels: channels of the stem, and how many each block adds; a multiple of 16.
        out_indices, **kwargs: see :class:`StagedBackbone` (``frozen_stages``, ``norm_eval``, ``init_cfg``).
        conv_cfg: the convolutions of the blocks, :data:`MELIUS` by default; None makes them real.
        stem_cfg: the strided convolution of the stem.
        stem_pool: height and width of the stem's pooling, 2 or 3; its stride is 2.
        norm_cfg: every norm layer.

    Raises:
        ValueError: an unknown depth, a stem that cannot be cut into its groups, or indices that name no stage.

    Example:
        >>> net = MeliusNet(22, base_channels=16).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 64, 64))]
        [(1, 80, 16, 16), (1, 120, 8, 8), (1, 120, 4, 4), (1, 128, 2, 2)]

    Source: Bethge et al. 2020 (MeliusNet), released code of both authors and Larq Zoo.
    """

    stem_parts = ('stem',)

    def __init__(
        self,
        depth: int = 22,
        *,
        in_channels: int = 3,
        base_channels: int = 64,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        conv_cfg: Config | None = MELIUS,
        stem_cfg: Config | None = None,
        stem_pool: int = 3,
        norm_cfg: Config = dict(type='BN'),
        **kwargs: Any,
    ) -> None:
        if depth not in STAGES:
            raise RebnnError(f'MeliusNet: depth={depth} is not available. Use {", ".join(map(str, STAGES))}.')
        if base_channels < 16 or base_channels % 16:
            raise RebnnError(f'MeliusNet: base_channels={base_channels} must be a multiple of 16, for grouped layers.')
        super().__init__(len(STAGES[depth]), out_indices=out_indices, **kwargs)
        half = base_channels // 2
        self.stem = nn.Sequential(
            *self._stem_layer(
                build_conv_layer(stem_cfg, in_channels, half, 3, stride=2, padding=1, bias=False), norm_cfg
            ),
            *self._stem_layer(nn.Conv2d(half, half, 3, padding=1, groups=4, bias=False), norm_cfg),
            *self._stem_layer(nn.Conv2d(half, base_channels, 3, padding=1, groups=8, bias=False), norm_cfg),
            nn.MaxPool2d(stem_pool, 2, padding=(stem_pool - 1) // 2),
        )
        channels = base_channels
        reduction: nn.Module | None = None
        for blocks, left in STAGES[depth]:
            layers: list[nn.Module] = [] if reduction is None else [reduction]
            for _ in range(blocks):
                layers.append(MeliusBlock(channels, base_channels, conv_cfg=conv_cfg, norm_cfg=norm_cfg))
                channels += base_channels
            norm = build_norm_layer(norm_cfg, channels)[1]
            if left:
                out_channels = int(left * base_channels)
                reduction = nn.Sequential(
                    norm, nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(channels, out_channels, 1, bias=False)
                )
                channels = out_channels
            else:
                layers += [norm, nn.ReLU()]
            self.add_stage(nn.Sequential(*layers))
        self.freeze_stages()

    @staticmethod
    def _stem_layer(conv: nn.Conv2d, norm_cfg: Config) -> tuple[nn.Module, ...]:
        return conv, build_norm_layer(norm_cfg, conv.out_channels)[1], nn.ReLU()
