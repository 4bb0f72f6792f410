"""Dense heads with binary convolutions, proposals' and one-stage detectors', and mmdet's SSD head, able to predict."""

from itertools import pairwise
from typing import Any, ClassVar

from mmcv.cnn import ConvModule
from mmdet.models.dense_heads import RPNHead, SSDHead
from mmengine.model import Sequential
from torch import Tensor, nn

from rebnn_mm.errors import RebnnError
from rebnn_mm.models.shortcuts import Config
from rebnn_mm.models.stages import BinaryUnit, block_style
from rebnn_mm.registry import MODELS


@MODELS.register_module()
class BinaryRPNHead(RPNHead):
    """mmdet's ``RPNHead`` whose hidden layer is binary convolution and norm, without activation.

    mmdet's own head takes no ``conv_cfg``, has no norm, and puts a ReLU after the convolution. The 1x1 layers that
    predict objectness and boxes keep full precision. Several feature levels share the layer, its norm included.

    With ``block`` the hidden layer is a :class:`rebnn_mm.models.BinaryUnit`: a shortcut goes around the convolution,
    and the activation of the block style follows, so that the predictors see the features and not only counts.

    Args:
        conv_cfg: the 3x3 convolutions; None makes them real.
        norm_cfg: the norm after each of them.
        block: block style of the hidden layer, such as ``'react'``; None for neither shortcut nor activation. Where
            ``feat_channels`` differs from ``in_channels`` the shortcut is a real 1x1 convolution.
        **kwargs: arguments of mmdet's ``RPNHead``.

    Example:
        >>> import torch
        >>> anchors = dict(type='AnchorGenerator', scales=[8], ratios=[1.0], strides=[16])
        >>> head = BinaryRPNHead(in_channels=8, feat_channels=16, anchor_generator=anchors)
        >>> score, box = head.forward_single(torch.randn(1, 8, 5, 4))
        >>> score.shape, box.shape
        (torch.Size([1, 1, 5, 4]), torch.Size([1, 4, 5, 4]))

    Source: the region proposal head of BiDet's Faster R-CNN, with mmdet's sigmoid objectness instead of a softmax.
    """

    def __init__(
        self,
        *args: Any,
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        block: str | Config | None = None,
        **kwargs: Any,
    ) -> None:
        # The parent's constructor calls _init_layers, which needs them.
        self.conv_cfg = conv_cfg
        self.norm_cfg = norm_cfg
        self.block = block
        super().__init__(*args, **kwargs)

    def _init_layers(self) -> None:
        super()._init_layers()
        channels = [self.in_channels] + [self.feat_channels] * self.num_convs
        self.rpn_conv = Sequential(*(self._hidden_layer(c_in, c_out) for c_in, c_out in pairwise(channels)))

    def _hidden_layer(self, in_channels: int, out_channels: int) -> nn.Module:
        layers: Config = dict(conv_cfg=self.conv_cfg, norm_cfg=self.norm_cfg)
        if self.block is None:
            return ConvModule(in_channels, out_channels, 3, padding=1, act_cfg=None, **layers)
        style, options = block_style(self.block)
        return BinaryUnit(style, in_channels, out_channels, **layers, **options)

    def forward_single(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Objectness (N, anchors, H, W) and box deltas (N, 4 * anchors, H, W) of one level (N, in_channels, H, W)."""
        x = self.rpn_conv(x)
        return self.rpn_cls(x), self.rpn_reg(x)


TOWERS = ('cls_convs', 'reg_convs')
"""Names of the stacks of convolutions before the predictors in mmdet's one-stage heads."""


@MODELS.register_module(name='BinaryTowers')
def build_binary_towers(
    head: str,
    conv_cfg: Config | None = dict(type='ReBNNConv2d'),
    norm_cfg: Config = dict(type='BN'),
    block: str | Config = 'react',
    shortcut: bool = True,
    **kwargs: Any,
) -> nn.Module:
    """Build a one-stage head of mmdet with a :class:`rebnn_mm.models.BinaryUnit` for each convolution of its towers.

    mmdet's towers are convolution and ReLU, four in a row. With binary convolutions each of them would see nothing but
    the counts of the one before; a shortcut around each carries the features on. Predictors keep full precision. What
    is built has the class of mmdet's head: losses, prediction and export are its own. Levels share the towers, norms
    included, where they do so in mmdet's head; ``RTMDetSepBNHead`` has norms for each level and, with
    ``share_conv=False``, convolutions, too.

    Args:
        head: the ``type`` that the head had, such as ``'RetinaHead'``, ``'FCOSHead'`` or ``'ATSSHead'``.
        conv_cfg: the convolutions of the towers; None makes them real and keeps the shortcuts.
        norm_cfg: the norm after each of them.
        block: block style, with one shortcut per convolution. Where channels change the shortcut is a real 1x1
            convolution.
        shortcut: False leaves the shortcuts out; with ``block='relu'`` the towers are then mmdet's own.
        **kwargs: arguments of the head.

    Raises:
        ValueError: the head has no towers of plain 3x3 convolutions.

    Example:
        >>> import mmdet.models
        >>> anchors = dict(type='AnchorGenerator', scales=[8], ratios=[1.0], strides=[8])
        >>> head = build_binary_towers(
        ...     'mmdet.RetinaHead', num_classes=3, in_channels=8, feat_channels=8, anchor_generator=anchors)
        >>> type(head).__name__, [type(layer).__name__ for layer in head.cls_convs]
        ('RetinaHead', ['BinaryUnit', 'BinaryUnit', 'BinaryUnit', 'BinaryUnit'])
    """
    style, options = block_style(block)
    # The norms of the towers that are replaced: FCOS's default has 32 groups, whatever the channels.
    built: Any = MODELS.build(dict(kwargs, type=head, norm_cfg=norm_cfg))
    for name in TOWERS:
        found: Any = getattr(built, name, None)
        # RTMDetSepBNHead has a tower for each level in a list.
        levels = isinstance(found, nn.ModuleList) and all(isinstance(tower, nn.ModuleList) for tower in found)
        towers: Any = found if levels else [found]
        if not all(isinstance(tower, nn.ModuleList) and all(map(_is_plain_3x3, tower)) for tower in towers):
            raise RebnnError(
                f'BinaryTowers: {head} has no {name!r} of plain 3x3 convolutions. Use a head that has, such as '
                'RetinaHead, FCOSHead, ATSSHead or GFLHead, or rebnn_mm.Binarized for the layers of any model.'
            )
        units: Config = dict(shortcut=shortcut, conv_cfg=conv_cfg, norm_cfg=norm_cfg, **options)
        shared: dict[nn.Module, BinaryUnit] = {}
        for tower in towers:
            for index, layer in enumerate(tower):
                unit = BinaryUnit(style, layer.in_channels, layer.out_channels, **units)
                # Levels that share a convolution have norms of their own.
                unit.conv = shared.setdefault(layer.conv, unit).conv
                tower[index] = unit
    return built


def _is_plain_3x3(layer: nn.Module) -> bool:
    """Whether a layer is a convolution as a unit makes it; a deformable one has another class."""
    if not isinstance(layer, ConvModule) or type(layer.conv) is not nn.Conv2d:
        return False
    conv = layer.conv
    return (conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups) == (
        (3, 3), (1, 1), (1, 1), (1, 1), 1
    )  # fmt: skip


@MODELS.register_module()
class FixedSSDHead(SSDHead):
    """mmdet's ``SSDHead`` with the one attribute that mmdet's prediction asks every dense head for.

    From 3.2 on mmdet reads ``loss_cls`` when it predicts. Its SSD head computes its loss itself and has none, so that
    validation, testing and inference of every SSD end in an ``AttributeError``
    (https://github.com/open-mmlab/mmdetection/issues/11063). Nothing else differs.

    Example:
        >>> FixedSSDHead(num_classes=20, anchor_generator=dict(
        ...     type='SSDAnchorGenerator', scale_major=False, input_size=300, basesize_ratio_range=(0.2, 0.9),
        ...     strides=[8, 16, 32, 64, 100, 300], ratios=[[2], [2, 3], [2, 3], [2, 3], [2], [2]],
        ... )).loss_cls is None
        True
    """

    loss_cls: ClassVar[None] = None
    """No loss with class channels of its own."""
