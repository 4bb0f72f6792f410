"""One stage of BinaryResNet as the shared head that a C4 detector runs on its regions."""

from collections.abc import Mapping
from typing import Any

from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor

from rebnn_mm.models.stages import build_stage

from ...errors import RebnnError
from .binary_resnet import stage_blocks
from .staged_backbone import DEFAULT_INIT, Config, freeze_norms


@MODELS.register_module(name=['BinaryResLayer', 'ReBNNResLayer'])
class BinaryResLayer(BaseModule):
    """A single stage, named as in the whole network (``layer4`` for ``stage=3``).

    The same checkpoint therefore fills the backbone and this head. With ``stride=2`` a 7x7 region becomes 4x4.

    Args:
        depth: 18, 20 or 34.
        stage: which stage, from 0.
        stride: stride of the first block.
        dilation: dilation of the stage.
        block: block style, see :class:`BinaryResNet`.
        base_channels: channels of the whole network's first stage; the input has ``base_channels * 2**(stage - 1)``,
            the output twice as many.
        conv_cfg: the 3x3 convolutions; None makes them real.
        norm_cfg: every norm layer.
        norm_eval: keep every BN in eval mode during training.
        with_cp: recompute blocks in the backward pass to save memory.
        init_cfg: initialisation; by default Kaiming for convolutions and one for norms.

    Raises:
        ValueError: an unknown block style, an unknown depth, or a stage that this depth does not have or that is the
            first.

    Example:
        >>> import torch
        >>> head = BinaryResLayer(18, base_channels=8).eval()
        >>> head(torch.randn(5, 32, 7, 7)).shape
        torch.Size([5, 64, 4, 4])

    Source: the C4 layout of BiDet's Faster R-CNN, whose structure the paper's table follows.
    """

    def __init__(
        self,
        depth: int,
        *,
        stage: int = 3,
        stride: int = 2,
        dilation: int = 1,
        block: str | Mapping[str, Any] = 'react',
        base_channels: int = 64,
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        norm_eval: bool = False,
        with_cp: bool = False,
        init_cfg: Config | list[Config] | None = None,
    ) -> None:
        super().__init__(init_cfg or DEFAULT_INIT)
        blocks_per_stage = stage_blocks('BinaryResLayer', depth)
        last = len(blocks_per_stage) - 1
        if not 1 <= stage <= last:
            raise RebnnError(
                f'BinaryResLayer: stage={stage} is not in 1 to {last}; the first stage belongs to the backbone.'
            )
        self.norm_eval = norm_eval
        self.name = f'layer{stage + 1}'
        channels = base_channels * 2 ** (stage - 1)
        layers: Config = dict(conv_cfg=conv_cfg, norm_cfg=norm_cfg, with_cp=with_cp, stride=stride, dilation=dilation)
        self.add_module(self.name, build_stage(block, channels, 2 * channels, blocks_per_stage[stage], **layers))

    def forward(self, x: Tensor) -> Tensor:
        """The stage's output, (regions, C, h, w) to (regions, 2C, ceil(h / stride), ceil(w / stride))."""
        return getattr(self, self.name)(x)

    def train(self, mode: bool = True) -> 'BinaryResLayer':
        """Switch the mode; with ``norm_eval`` every BN stays in eval mode."""
        super().train(mode)
        if self.norm_eval:
            freeze_norms(self)
        return self
