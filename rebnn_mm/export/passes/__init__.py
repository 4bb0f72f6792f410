"""Passes over a packed model's graph, each in its own file (:func:`rebnn_mm.export.rewriting.apply_passes`)."""

from onnx_ir.passes import PassBase

from ..options import Options
from ..tasks import TEXT, Task
from .channels_last import ChannelsLast
from .compact import Compact
from .fold_factors import FoldFactors
from .fold_norm import FoldNorms
from .fuse import FuseBlocks
from .half import ToHalf
from .int8 import Plan, QuantizeInt8
from .keep_signs import KeepSigns
from .spread_norms import SpreadNorms
from .stem import JoinStem


def passes_of(task: Task, options: Options, plan: Plan | None = None) -> list[PassBase]:
    """List the passes between tracing and the file, in their order.

    Example:
        >>> [type(step).__name__ for step in passes_of(Task('classification'), Options(half=True))]
        ['SpreadNorms', 'FuseBlocks', 'FoldNorms', 'ChannelsLast', 'Compact', 'ToHalf']
    """
    text = task.name == TEXT
    fused = options.fuse and not text
    return [
        *([KeepSigns()] if text else []),
        *([JoinStem(half=options.half_stem)] if options.fast else []),
        *([SpreadNorms(), FuseBlocks(), FoldNorms()] if fused else []),
        *([FoldFactors()] if fused and options.fast else []),
        *([ChannelsLast(regions=options.fast)] if fused else []),
        *([QuantizeInt8(plan)] if plan is not None else []),
        Compact(),
        *([ToHalf()] if options.half else []),
    ]
