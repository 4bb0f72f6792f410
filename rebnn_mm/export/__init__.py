"""Writes trained models as packed ONNX files (docs/export.md, docs/format.md).

:func:`rebnn_mm.export.exporter.export` does all of it and verifies the result, for a model in memory;
``rebnn export`` for a checkpoint, into the file of any of :data:`ENGINES`. The steps, each usable alone:
:func:`pack` replaces a model's binary layers, :func:`trace` makes an ONNX model of it, and the passes of
:mod:`rebnn_mm.export.passes` rewrite that (:func:`apply_passes`).
"""

from .convert import PackedModel, pack
from .engines import ENGINES
from .operators import DOMAIN, OPERATORS, OPSET, all_nodes, attach_functions, operator_function
from .packed_layers import PackedConv2d, PackedLinear
from .packing import count_packed_bytes, pack_bits, pack_weight, unpack_bits
from .rewriting import apply_passes
from .trace import trace

__all__ = [
    'DOMAIN',
    'ENGINES',
    'OPERATORS',
    'OPSET',
    'PackedConv2d',
    'PackedLinear',
    'PackedModel',
    'all_nodes',
    'apply_passes',
    'attach_functions',
    'count_packed_bytes',
    'operator_function',
    'pack',
    'pack_bits',
    'pack_weight',
    'trace',
    'unpack_bits',
]
