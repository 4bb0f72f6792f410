"""The backbone of the one-stage 1-bit detectors: a small stem, then stages of single binary convolutions."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from mmcv.cnn import ConvModule
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.models.stages import BinaryUnit, block_style, stack_blocks

from ...errors import RebnnError
from .staged_backbone import Config, StagedBackbone


@MODELS.register_module()
class OneBitBackbone(StagedBackbone):
    """Stem of small real 3x3 convolutions, then stages in which each binary 3x3 convolution has its own shortcut.

    Nothing wide is real but the 1x1 convolutions of the shortcuts between stages. Widths and depths are free, so that
    they can follow the time that each resolution takes.

    Args:
        channels: of each stage. The first stage has the stem's resolution, each further one half of that before.
        depths: binary convolutions of each stage.
        stem_channels: of the stem's convolutions, each of stride 2 with norm and ReLU; the last one has those of the
            first stage and no ReLU, because signs follow.
        block: block style with one shortcut per convolution, such as ``'react'`` or ``'hardtanh'``.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        conv_cfg: the binary convolutions; None makes them real.
        norm_cfg: every norm layer.
        out_indices, **kwargs: see :class:`StagedBackbone` (``frozen_stages``, ``norm_eval``, ``init_cfg``).

    Raises:
        ValueError: an unknown block style, ``channels`` and ``depths`` differ in length, or indices name no stage.

    Example:
        >>> import torch
        >>> net = OneBitBackbone((16, 32, 32), (1, 2, 1), out_indices=(1, 2)).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 64, 64))]
        [(1, 32, 8, 8), (1, 32, 4, 4)]
    """

    stem_parts = ('stem',)

    def __init__(
        self,
        channels: Sequence[int],
        depths: Sequence[int],
        *,
        stem_channels: Sequence[int] = (16,),
        block: str | Mapping[str, Any] = 'react',
        in_channels: int = 3,
        out_indices: Sequence[int] = (1, 2, 3),
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        **kwargs: Any,
    ) -> None:
        if len(channels) != len(depths):
            raise RebnnError(
                f'OneBitBackbone: channels={tuple(channels)} and depths={tuple(depths)} must have an entry for each '
                'stage.'
            )
        super().__init__(len(channels), out_indices=out_indices, **kwargs)
        style, options = block_style(block)
        options.update(conv_cfg=conv_cfg, norm_cfg=norm_cfg)
        widths = (in_channels, *stem_channels, channels[0])
        self.stem = nn.Sequential(
            *(
                ConvModule(c_in, c_out, 3, stride=2, padding=1, norm_cfg=norm_cfg, act_cfg=dict(type='ReLU'))
                for c_in, c_out in pairwise(widths[:-1])
            ),
            ConvModule(*widths[-2:], 3, stride=2, padding=1, norm_cfg=norm_cfg, act_cfg=None),
        )
        before = channels[0]
        for index, (width, depth) in enumerate(zip(channels, depths, strict=True)):
            stride = 2 if index else 1
            self.add_stage(stack_blocks(partial(BinaryUnit, style), before, width, depth, stride=stride, **options))
            before = width
        self.freeze_stages()
