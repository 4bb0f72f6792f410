"""VGG-small, the plain network of the CIFAR-10 tables."""

from collections.abc import Mapping
from typing import Any

from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.models.stages import block_style, build_stage

from .staged_backbone import DEFAULT_INIT, Config

WIDTHS = (1, 1, 2, 2, 4, 4)
"""Channels of the six layers, in multiples of the first layer's. Every second layer halves the resolution."""


@MODELS.register_module()
class BinaryVGGSmall(BaseModule):
    r"""Six 3x3 convolutions without shortcuts; the first one is real.

    .. math:: y = a(\mathrm{BN}(\mathrm{pool}(\mathrm{conv}(x))))

    The pooling of every second layer takes the maximum of full-precision sums; after the sign it would give +1 nearly
    everywhere.

    Args:
        block: block style that chooses :math:`a` and the shift before each sign, see :class:`BinaryResNet`; its
            shortcuts have no place here.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        base_channels: channels of the first two layers; the next two have twice, the last two four times as many.
        conv_cfg: all convolutions but the first; None makes them real.
        norm_cfg: every norm layer.
        init_cfg: initialisation; by default Kaiming for convolutions and one for norms.

    Raises:
        ValueError: an unknown block style.

    Example:
        >>> import torch
        >>> net = BinaryVGGSmall(base_channels=8, conv_cfg=dict(type='ReBNNConv2d')).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(2, 3, 32, 32))]
        [(2, 32, 4, 4)]

    Source: the VGG-small of the CIFAR-10 tables of RBNN and ReCU, with 128 channels in the first layer and 512 in the
    last.
    """

    def __init__(
        self,
        *,
        block: str | Mapping[str, Any] = 'hardtanh',
        in_channels: int = 3,
        base_channels: int = 128,
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        init_cfg: Config | list[Config] | None = None,
    ) -> None:
        super().__init__(init_cfg or DEFAULT_INIT)
        style, options = block_style(block)
        # Drawn and dropped, so that a seed still gives the weights of the measured runs.
        build_stage(block, base_channels, base_channels, 1, stride=1, conv_cfg=conv_cfg)
        conv_cfg = style.with_activation(conv_cfg)
        channels = in_channels
        for i, width in enumerate(WIDTHS):
            out_channels = width * base_channels
            conv = build_conv_layer(
                conv_cfg if i else None, channels, out_channels, kernel_size=3, padding=1, bias=False
            )
            self.add_module(f'conv{i + 1}', conv)
            self.add_module(f'bn{i + 1}', build_norm_layer(norm_cfg, out_channels)[1])
            self.add_module(f'act{i + 1}', style.build_act(out_channels, **options))
            channels = out_channels
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """The last layer's map (N, 4 * base_channels, H / 8, W / 8), from (N, in_channels, H, W)."""
        for i in range(len(WIDTHS)):
            x = getattr(self, f'conv{i + 1}')(x)
            if i % 2:
                x = self.pool(x)
            x = getattr(self, f'act{i + 1}')(getattr(self, f'bn{i + 1}')(x))
        return (x,)
