"""VGG-16 restructured for binary convolutions, as the backbone of SSD300."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mmcv.cnn import ConvModule
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.models.stages import BinaryUnit, block_style, build_stage

from ...errors import RebnnError
from .staged_backbone import DEFAULT_INIT, Config

STAGE_CONVS = (2, 2, 3, 3, 3)
TAPS = ('conv4_3', 'conv7')


@MODELS.register_module()
class BinarySSDVGG(BaseModule):
    """VGG-16 with BN, a shortcut per binary convolution and a strided convolution in place of every pooling.

    The thirteen 3x3 convolutions are ``conv1_1`` to ``conv5_3``. Each of the first four stages ends with one more,
    ``pool1`` to ``pool4``, which halves the resolution, rounding up: 300 gives 150, 75, 38, 19. ``pool5`` is 3x3 max
    pooling with stride 1; ``conv6`` is 3x3 with dilation 6, ``conv7`` 1x1, both followed by BN and ReLU. Real are
    ``conv1_1``, ``conv7`` and the 1x1 convolutions of shortcuts; ``conv1_1`` has BN and no activation.

    A checkpoint with the keys of a full-precision VGG-16 (``features.0.weight``, ...: torchvision's with or without
    BN, mmdet's ``open-mmlab://vgg16_caffe``) fills the convolutions that it has, in their order. Without BN in the
    checkpoint its biases are dropped: a batch norm follows each convolution and would take them out again.

    Args:
        block: block style, see :class:`BinaryResNet`; one with a shortcut for each convolution.
        shortcut: whether the convolutions have shortcuts. Without, the network is the chain that XNOR-Net and
            DoReFa-Net train.
        in_channels: channels of the input image, shape (N, in_channels, H, W).
        base_channels: channels of the first stage, 64 in VGG-16; the stages have 1, 2, 4, 8 and 8 times as many,
            ``conv6`` and ``conv7`` 16 times.
        out_indices: which maps are returned: 0 is ``conv4_3`` at stride 8, 1 is ``conv7`` at stride 16.
        widen: which convolution widens from stage to stage: ``'conv'``, the first one of the wider stage, so that
            VGG-16's weights fit, or ``'pool'``, the strided one before it, as in BiDet's released code.
        conv_cfg: the convolutions that are binary; None gives a full-precision network of the same structure.
        norm_cfg: every norm layer.
        init_cfg: initialisation; by default Kaiming for convolutions and one for norms.

    Raises:
        ValueError: an unknown block style, ``out_indices`` names no map, ``widen`` is none of these, the block style
            is not made for single convolutions, or a checkpoint is of another VGG.

    Example:
        >>> import torch
        >>> net = BinarySSDVGG(base_channels=4).eval()
        >>> [tuple(y.shape) for y in net(torch.randn(1, 3, 300, 300))]
        [(1, 32, 38, 38), (1, 64, 19, 19)]

    Source: Liu et al. 2016 (SSD), section 3.1; restructured after BiDet (Wang et al. 2020).
    """

    def __init__(
        self,
        *,
        block: str | Mapping[str, Any] = 'react',
        shortcut: bool = True,
        in_channels: int = 3,
        base_channels: int = 64,
        out_indices: Sequence[int] = (0, 1),
        widen: str = 'conv',
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        init_cfg: Config | list[Config] | None = None,
    ) -> None:
        super().__init__(init_cfg or DEFAULT_INIT)
        if not out_indices or not set(out_indices) <= {0, 1}:
            raise RebnnError(f'BinarySSDVGG: out_indices={tuple(out_indices)} must name maps: 0 (conv4_3), 1 (conv7).')
        if widen not in ('conv', 'pool'):
            raise RebnnError(f"BinarySSDVGG: widen={widen!r} is unknown; use 'conv' or 'pool'.")
        self.widen = widen
        self.taps = tuple(name for i, name in enumerate(TAPS) if i in out_indices)
        style, options = block_style(block)
        options.update(shortcut=shortcut, conv_cfg=conv_cfg, norm_cfg=norm_cfg)
        # Drawn and dropped, so that a seed still gives the weights of the measured runs.
        build_stage(block, base_channels, base_channels, 1, stride=1, conv_cfg=conv_cfg)
        widths = [base_channels * 2 ** min(i, 3) for i in range(len(STAGE_CONVS))]
        self.sequence: list[str] = []
        self._append('conv1_1', ConvModule(in_channels, widths[0], 3, padding=1, norm_cfg=norm_cfg, act_cfg=None))
        for i, (channels, convs) in enumerate(zip(widths, STAGE_CONVS, strict=True), start=1):
            names = [f'conv{i}_{j}' for j in range(1, convs + 1)] + ([f'pool{i}'] if i < len(widths) else [])
            for name in names[1:] if i == 1 else names:
                pool = name.startswith('pool')
                before = widths[i - 2] if widen == 'conv' and name == f'conv{i}_1' else channels
                after = widths[i] if widen == 'pool' and pool else channels
                self._append(name, BinaryUnit(style, before, after, stride=2 if pool else 1, **options))
        self._append('pool5', nn.MaxPool2d(3, stride=1, padding=1))
        last = 2 * widths[-1]
        hidden = style.with_activation(conv_cfg)
        self._append(
            'conv6', ConvModule(widths[-1], last, 3, padding=6, dilation=6, conv_cfg=hidden, norm_cfg=norm_cfg)
        )
        self._append('conv7', ConvModule(last, last, 1, norm_cfg=norm_cfg))

    def _append(self, name: str, module: nn.Module) -> None:
        self.sequence.append(name)
        self.add_module(name, module)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The maps in ``out_indices``, from (N, in_channels, H, W)."""
        outs = []
        for name in self.sequence:
            x = getattr(self, name)(x)
            if name in self.taps:
                outs.append(x)
        return tuple(outs)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        self._rename_keys_of_vgg(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _rename_keys_of_vgg(self, state_dict: dict[str, Any], prefix: str) -> None:
        found = re.compile(re.escape(prefix) + r'features\.(\d+)\.(\w+)')
        matches = sorted((int(m[1]), m[2], key) for key in state_dict if (m := found.fullmatch(key)))
        convs = [i for i, parameter, key in matches if parameter == 'weight' and state_dict[key].dim() == 4]
        names = [name for name in self.sequence if name.startswith('conv')]
        if convs and len(convs) not in (len(names) - 2, len(names)):
            raise RebnnError(
                f'BinarySSDVGG: the checkpoint has {len(convs)} convolutions under {prefix}features; VGG-16 has '
                f"{len(names) - 2}, SSD's {len(names)}. Name one of those in init_cfg."
            )
        if convs and self.widen == 'pool':
            raise RebnnError(
                f"BinarySSDVGG: the VGG-16 under {prefix}features does not fit widen='pool', whose convolutions have "
                "other shapes. Use widen='conv', or another checkpoint in init_cfg."
            )
        target = {i: f'{prefix}{name}.' for i, name in zip(convs, names, strict=False)}
        for i, parameter, key in matches:
            value = state_dict.pop(key)
            if i in target and parameter == 'weight':
                state_dict[f'{target[i]}conv.weight'] = value
            elif i - 1 in target:
                state_dict[f'{target[i - 1]}bn.{parameter}'] = value
