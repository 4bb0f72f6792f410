"""Parts of networks in a block style: stages of blocks, and single convolutions."""

from collections.abc import Callable, Mapping
from typing import Any

from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule, Sequential
from torch import Tensor
from torch.nn import Module

from rebnn_mm.layers.memory import memory_of, run_block
from rebnn_mm.registry import BLOCKS, summary

from ..errors import RebnnError, did_you_mean
from .blocks import BinaryBasicBlock
from .shortcuts import Config, pooled_shortcut


def block_style(block: str | Mapping[str, Any]) -> tuple[type[BinaryBasicBlock], dict[str, Any]]:
    """The class of a block style, and the options that the config gives it."""
    options = {'type': block} if isinstance(block, str) else dict(block)
    name = options.pop('type')
    style = BLOCKS.get(name)
    if style is None:
        near = did_you_mean(name, BLOCKS.module_dict) or f'There are {", ".join(block_styles())}.'
        raise RebnnError(
            f'block={name!r} is not a registered block style.',
            fix=f'{near} A style of yours has to be imported (custom_imports).',
        )
    return style, options


def block_styles() -> dict[str, str]:
    """Describe each registered block style in one line, by the short name that ``block`` takes.

    Example:
        >>> block_styles()['hardtanh']
        'The block of RBNN and ReCU: sign, convolution, BN, shortcut, Hardtanh; twice.'
    """
    names: dict[type, str] = {}
    for name, style in BLOCKS.module_dict.items():
        names[style] = min(name, names.get(style, name), key=len)
    return {name: summary(style) for style, name in names.items()}


def build_stage(
    block: str | Mapping[str, Any], in_channels: int, out_channels: int, num_blocks: int, *, stride: int, **kwargs: Any
) -> Sequential:
    """A stage in a block style."""
    style, options = block_style(block)
    return stack_blocks(style, in_channels, out_channels, num_blocks, stride=stride, **options, **kwargs)


def stack_blocks(
    block: Callable[..., Module], in_channels: int, out_channels: int, num_blocks: int, *, stride: int, **kwargs: Any
) -> Sequential:
    """The blocks between two changes of resolution; the first one changes channels and resolution."""
    channels = [in_channels] + [out_channels] * (num_blocks - 1)
    strides = [stride] + [1] * (num_blocks - 1)
    return Sequential(*(block(c, out_channels, stride=s, **kwargs) for c, s in zip(channels, strides, strict=True)))


class BinaryUnit(BaseModule):
    r"""A 3x3 convolution in the style of a block, with or without a shortcut.

    .. math:: y = a(\mathrm{BN}(\mathrm{conv}(x)) + s(x)) \quad \text{or} \quad y = a(\mathrm{BN}(\mathrm{conv}(x)))

    :math:`a`, and the shift before the sign, are those of the style; :math:`s` is as in
    :class:`BinaryBasicBlock`: the identity where the shapes agree, else average pooling, a real 1x1 convolution and a
    norm.

    Args:
        style: class of the block style, asked for its activation and shift.
        in_channels: channels of the input, shape (N, in_channels, H, W).
        out_channels: channels of the output, shape (N, out_channels, ceil(H / stride), ceil(W / stride)).
        stride: stride of the convolution.
        shortcut: whether to add :math:`s(x)`.
        conv_cfg: the convolution; None makes it real.
        norm_cfg: every norm layer.
        options: those of the style, handed to its :meth:`BinaryBasicBlock.build_act`.

    Raises:
        ValueError: the style puts one shortcut over two convolutions or orders its layers otherwise.

    Example:
        >>> import torch
        >>> from rebnn_mm.models import BinaryReActBlock
        >>> unit = BinaryUnit(BinaryReActBlock, 8, 16, stride=2, conv_cfg=dict(type='ReBNNConv2d'))
        >>> unit(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])
    """

    def __init__(
        self,
        style: type[BinaryBasicBlock],
        in_channels: int,
        out_channels: int,
        *,
        stride: int = 1,
        shortcut: bool = True,
        conv_cfg: Config | None = None,
        norm_cfg: Config = dict(type='BN'),
        init_cfg: Config | list[Config] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(init_cfg)
        if style.forward_block is not BinaryBasicBlock.forward_block:
            raise RebnnError(
                f'BinaryUnit: {style.__name__} is made for two convolutions, and here each stands alone. Use a '
                "style with one shortcut per convolution ('bireal', 'react', 'hardtanh', 'relu'); shortcut=False "
                'leaves its shortcut out.'
            )
        self.shortcut = shortcut
        self.conv = build_conv_layer(
            style.with_activation(conv_cfg), in_channels, out_channels, 3, stride=stride, padding=1, bias=False
        )
        self.bn = build_norm_layer(norm_cfg, out_channels)[1]
        self.act = style.build_act(out_channels, **options)
        if shortcut:
            self.pool, self.downsample = pooled_shortcut(in_channels, out_channels, stride, norm_cfg)

    def forward(self, x: Tensor) -> Tensor:
        """Run the unit; see the class for shapes."""
        return run_block(self._unit, x, [self], memory_of(self.conv))

    def _unit(self, x: Tensor) -> Tensor:
        y = self.bn(self.conv(x))
        return self.act(y + self.downsample(self.pool(x)) if self.shortcut else y)
