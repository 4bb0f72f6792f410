"""The block of Bi-Real Net: the sign is the only non-linearity."""

import warnings
from typing import Any

from rebnn_mm.registry import BLOCKS

from .base import BinaryBasicBlock, Config


@BLOCKS.register_module(name=['BinaryBiRealBlock', 'bireal'])
class BinaryBiRealBlock(BinaryBasicBlock):
    r"""Sign, convolution, BN, shortcut; twice.

    With ``conv_cfg=None`` nothing in the block is non-linear, which is rarely meant; it warns.

    Example:
        >>> import torch
        >>> block = BinaryBiRealBlock(8, 8, conv_cfg=dict(type='ReBNNConv2d'))
        >>> block(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 8, 6, 5])

    Source: Liu et al. 2018, Bi-Real Net, section 3.1; also the block of BiDet (SC).
    """

    def __init__(self, *args: Any, conv_cfg: Config | None = None, **kwargs: Any) -> None:
        if conv_cfg is None:
            warnings.warn(
                'BinaryBiRealBlock: with conv_cfg=None the block is linear. For a real-valued network use '
                "block='react', or conv_cfg=dict(type='BinaryConv2d', weight=None) to keep the sign of the input.",
                stacklevel=2,
            )
        super().__init__(*args, conv_cfg=conv_cfg, **kwargs)
