"""Passes over the graph of a packed model: each takes a graph, gives a graph and does one thing.

They rewrite it as an ``onnx_ir`` graph (:func:`rebnn_mm.export.passes.graph.changed`). The last two, :func:`compact`
and :func:`to_half`, decide how it is stored and work on the messages of the file: ``onnx_ir`` would not write the
empty names that are in every file since the first.
"""

from .channels_last import channels_last
from .compact import compact
from .fold_factors import fold_factors
from .fold_norm import fold_norms
from .fuse import fuse
from .half import to_half
from .keep_signs import keep_signs
from .spread_norms import spread_norms
from .stem import halve_stem, join_stem

__all__ = [
    'channels_last',
    'compact',
    'fold_factors',
    'fold_norms',
    'fuse',
    'halve_stem',
    'join_stem',
    'keep_signs',
    'spread_norms',
    'to_half',
]
