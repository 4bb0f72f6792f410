"""Passes over a packed model's graph, each in its own file (:func:`rebnn_mm.export.rewriting.apply_passes`)."""

from .channels_last import ChannelsLast
from .compact import Compact
from .fold_factors import FoldFactors
from .fold_norm import FoldNorms
from .fuse import FuseBlocks
from .half import ToHalf
from .int8 import QuantizeInt8
from .keep_signs import KeepSigns
from .spread_norms import SpreadNorms
from .stem import JoinStem

__all__ = [
    'ChannelsLast',
    'Compact',
    'FoldFactors',
    'FoldNorms',
    'FuseBlocks',
    'JoinStem',
    'KeepSigns',
    'QuantizeInt8',
    'SpreadNorms',
    'ToHalf',
]
