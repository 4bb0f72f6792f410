"""ResNet-18, 34 and CIFAR's ResNet-20 with binary 3x3 convolutions, for detectors and classifiers."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmcv.cnn import build_activation_layer, build_conv_layer, build_norm_layer
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.layers.memory import run_block
from rebnn_mm.models.stages import build_stage

from ...errors import RebnnError
from .staged_backbone import Config, StagedBackbone

STAGE_BLOCKS = {18: (2, 2, 2, 2), 20: (3, 3, 3), 34: (3, 4, 6, 3)}


def stage_blocks(owner: str, depth: int) -> tuple[int, ...]:
    """Blocks per stage of a ResNet of this depth."""
    if depth not in STAGE_BLOCKS:
        raise RebnnError(
            f'{owner}: depth={depth} is not available. Use one of {sorted(STAGE_BLOCKS)}; deeper ResNets have 1x1 '
            "bottlenecks: type='BinaryBottleneckResNet'."
        )
    return STAGE_BLOCKS[depth]


@MODELS.register_module(name=['BinaryResNet', 'ReBNNResNet'])
class BinaryResNet(StagedBackbone):
    """ResNet with one shortcut per binary convolution; stem and shortcuts are real.

    Parameters are named as in torchvision (``conv1``, ``bn1``, ``layer1.0.conv1``, ``layer2.0.downsample.0``), so
    ``init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet18')`` fills every convolution and norm, and the
    full-precision network of a first training stage (same class, other ``conv_cfg``) fits as it is. A checkpoint of
    mmpretrain needs ``prefix='backbone.'`` next to ``checkpoint``.

    Args:
        depth: 18 or 34; or 20, the ResNet for CIFAR, which has three stages and wants ``base_channels=16``.
        block: block style, a name in :data:`rebnn_mm.registry.BLOCKS` (``'react'``, ``'bireal'``) or a dict with
            that name as ``type``.
        stem: ``'imagenet'`` (7x7 convolution with stride 2, BN, max pooling), ``'keras'`` (the same, with more of the
            padding at the right and at the bottom, as Keras pads even sizes; ``pad_end`` of a binary convolution does
            so in the blocks) or ``'cifar'`` (3x3 with stride 1, BN).
        stem_act: activation layer after the stem's BN; None for none, as in Bi-Real Net and ReActNet.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        base_channels: channels of the stem and the first stage; they double at every further stage.
        num_stages: number of stages, 1 to 4.
        strides: stride of the first block of each stage.
        dilations: dilation of each stage.
        out_indices: stages (from 0) whose output is returned.
        conv_cfg: the 3x3 convolutions of the blocks. A layer of this project that names no ``activation`` gets the
            one its block style is made for. None gives a full-precision network of the same structure.
        norm_cfg: every norm layer.
        with_cp: recompute blocks in the backward pass to save memory.
        **kwargs: ``frozen_stages``, ``norm_eval`` and ``init_cfg`` of :class:`StagedBackbone`.

    Raises:
        ValueError: an unknown block style, an unknown depth or stem, or lengths and indices that do not fit
            ``num_stages``.

    Example:
        >>> import torch
        >>> net = BinaryResNet(18, base_channels=8).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 64, 64))]
        [(1, 8, 16, 16), (1, 16, 8, 8), (1, 32, 4, 4), (1, 64, 2, 2)]

    Source: the structure of the paper's ResNet experiments, after Bi-Real Net and ReActNet; depth 20: He et al. 2016,
    section 4.2.
    """

    stem_parts = ('conv1', 'bn1', 'stem_act')

    def __init__(
        self,
        depth: int,
        *,
        block: str | Mapping[str, Any] = 'react',
        stem: str = 'imagenet',
        stem_act: Config | None = None,
        in_channels: int = 3,
        base_channels: int = 64,
        num_stages: int = 4,
        strides: Sequence[int] = (1, 2, 2, 2),
        dilations: Sequence[int] = (1, 1, 1, 1),
        out_indices: Sequence[int] = (0, 1, 2, 3),
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        with_cp: bool = False,
        **kwargs: Any,
    ) -> None:
        blocks_per_stage = stage_blocks('BinaryResNet', depth)
        if not 1 <= num_stages <= 4:
            raise RebnnError(f'BinaryResNet: num_stages={num_stages} is not in 1 to 4.')
        if not len(strides) == len(dilations) == num_stages:
            raise RebnnError(
                f'BinaryResNet: strides={tuple(strides)} and dilations={tuple(dilations)} need '
                f'num_stages={num_stages} entries each.'
            )
        super().__init__(num_stages, out_indices=out_indices, **kwargs)
        if num_stages > len(blocks_per_stage):
            raise RebnnError(
                f'BinaryResNet: depth={depth} has {len(blocks_per_stage)} stages, not num_stages={num_stages}. Set '
                'num_stages=3, strides=(1, 2, 2), dilations=(1, 1, 1) and out_indices=(2,).'
            )

        self.conv1, self.maxpool = self._make_stem(stem, in_channels, base_channels)
        self.bn1 = build_norm_layer(norm_cfg, base_channels)[1]
        self.stem_act = nn.Identity() if stem_act is None else build_activation_layer(stem_act)
        # With 'sums' this would save memory, too, but take long: the stem's maps are the largest.
        self.stem_memory = 'recompute' if conv_cfg and conv_cfg.get('memory') == 'recompute' else 'plain'
        layers: Config = dict(conv_cfg=conv_cfg, norm_cfg=norm_cfg, with_cp=with_cp)
        channels = base_channels
        for i in range(num_stages):
            out_channels = base_channels * 2**i
            sizes: Config = dict(stride=strides[i], dilation=dilations[i])
            self.add_stage(build_stage(block, channels, out_channels, blocks_per_stage[i], **sizes, **layers))
            channels = out_channels
        self.freeze_stages()

    @staticmethod
    def _make_stem(stem: str, in_channels: int, channels: int) -> tuple[nn.Conv2d, nn.Module]:
        if stem == 'imagenet':
            return nn.Conv2d(in_channels, channels, 7, stride=2, padding=3, bias=False), nn.MaxPool2d(3, 2, padding=1)
        if stem == 'keras':
            # With ceil_mode an even size is pooled as if it were padded at its end.
            padded = dict(type='Conv2dAdaptivePadding')
            conv = build_conv_layer(padded, in_channels, channels, 7, stride=2, bias=False)
            return conv, nn.MaxPool2d(3, 2, ceil_mode=True)
        if stem == 'cifar':
            return nn.Conv2d(in_channels, channels, 3, stride=1, padding=1, bias=False), nn.Identity()
        raise RebnnError(f"BinaryResNet: stem={stem!r} is unknown. Use 'imagenet', 'keras' or 'cifar'.")

    def forward_stem(self, x: Tensor) -> Tensor:
        """Convolution, BN, activation and pooling."""
        return run_block(self._behind_stem, self.conv1(x), [self.bn1, self.stem_act, self.maxpool], self.stem_memory)

    def _behind_stem(self, x: Tensor) -> Tensor:
        return self.maxpool(self.stem_act(self.bn1(x)))
