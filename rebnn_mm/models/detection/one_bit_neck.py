"""The neck of the one-stage 1-bit detectors: levels are added, and every convolution is binary."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.model import BaseModule
from torch import Tensor, nn
from torch.nn import functional

from rebnn_mm.errors import RebnnError
from rebnn_mm.models.shortcuts import Config, pooled_shortcut, shortcut_pool
from rebnn_mm.models.stages import BinaryUnit, block_style
from rebnn_mm.registry import MODELS


@MODELS.register_module()
class OneBitNeck(BaseModule):
    r"""Pyramid of additions, down and then, with ``bottom_up``, up again; a binary unit after each addition.

    .. math::
        t_i = u_i(l_i(x_i) + \mathrm{up}(t_{i+1})) \qquad o_i = v_i(t_i + \mathrm{pool}(o_{i-1}))

    :math:`l_i` is the identity where a level has the neck's channels already, else a real 1x1 convolution and a norm;
    :math:`u_i` and :math:`v_i` are :class:`rebnn_mm.models.BinaryUnit`, whose shortcut carries the sum on. The
    coarsest level has nothing to add on the way down, the finest nothing on the way up.

    Args:
        in_channels: of each level, finest first, each half as high and wide as the one before.
        out_channels: of every output.
        bottom_up: whether there is a way up.
        block: block style with one shortcut per convolution.
        conv_cfg: the 3x3 convolutions; None makes them real.
        norm_cfg: every norm layer.

    Shapes: (N, in_channels[i], H_i, W_i) to (N, out_channels, H_i, W_i) per level; H_i and W_i are even for all levels
    but the coarsest, else a ValueError is raised.

    Example:
        >>> import torch
        >>> neck = OneBitNeck([8, 16], 16)
        >>> [tuple(y.shape) for y in neck([torch.randn(1, 8, 8, 6), torch.randn(1, 16, 4, 3)])]
        [(1, 16, 8, 6), (1, 16, 4, 3)]
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int,
        *,
        bottom_up: bool = True,
        block: str | Mapping[str, Any] = 'react',
        conv_cfg: Config | None = dict(type='ReBNNConv2d'),
        norm_cfg: Config = dict(type='BN'),
        init_cfg: Config | list[Config] | None = None,
    ) -> None:
        super().__init__(init_cfg)
        style, options = block_style(block)
        levels = len(in_channels)

        def unit() -> BinaryUnit:
            return BinaryUnit(style, out_channels, out_channels, conv_cfg=conv_cfg, norm_cfg=norm_cfg, **options)

        self.laterals = nn.ModuleList(pooled_shortcut(c, out_channels, 1, norm_cfg)[1] for c in in_channels)
        self.down = nn.ModuleList(unit() for _ in range(levels))
        self.up = nn.ModuleList(unit() for _ in range(levels - 1 if bottom_up else 0))
        self.pool = shortcut_pool(2)

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Add the levels up; see the class for shapes."""
        maps = [lateral(x) for lateral, x in zip(self.laterals, inputs, strict=True)]
        maps[-1] = self.down[-1](maps[-1])
        for i in range(len(maps) - 2, -1, -1):
            above = functional.interpolate(maps[i + 1], scale_factor=2.0, mode='nearest')
            if above.shape[-2:] != maps[i].shape[-2:]:
                what = f'a level of {tuple(maps[i].shape[-2:])} is not twice the next, which would be'
                fix = 'Pad images to the coarsest stride: data_preprocessor.pad_size_divisor=32'
                raise RebnnError(f'{what} {tuple(above.shape[-2:])}.', type(self).__name__, fix)
            maps[i] = self.down[i](maps[i] + above)
        for i, unit in enumerate(self.up, start=1):
            maps[i] = unit(maps[i] + self.pool(maps[i - 1]))
        return tuple(maps)
