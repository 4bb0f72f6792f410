"""Takes what a binary block computes twice per channel together."""

import numpy as np
import onnx_ir as ir

from ..operators import DOMAIN
from ..rewriting import RESIDUAL, Rewrite, Vector, constant, constant_array, only_use


class FoldFactors(Rewrite):
    r"""Give each block one factor per channel in place of two, and the bias of a shortcut's convolution.

    .. math:: (a \cdot s) \cdot m + b + (x * w + c) = a \cdot (s \cdot m) + (b + c) + x * w

    The two sides round differently, so only files with the option ``fast`` are written so.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from rebnn_mm.export import pack, apply_passes, trace
        >>> from rebnn_mm.export.passes import FuseBlocks
        >>> from rebnn_mm.methods import ReBNNConv2d
        >>> net = nn.Sequential(ReBNNConv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)).eval()
        >>> model = trace(pack(net).model, {'x': torch.ones(1, 8, 4, 4)}, ['y'])
        >>> model = apply_passes(model, FuseBlocks(), FoldFactors())
        >>> [name for name in model.graph.node[0].input if 'scale' in name or 'ones' in name]
        ['0.scale_mul', 'ones_8', 'ones_8']
    """

    def rewrite(self, graph: ir.Graph) -> bool:
        blocks = [node for node in graph if node.domain == DOMAIN and node.op_type in RESIDUAL]
        folded = [_fold(graph, node) for node in blocks]
        return any(folded)


def _fold(graph: ir.Graph, block: ir.Node) -> bool:
    at = RESIDUAL[block.op_type] - 3
    scale, mul, add = (constant_array(value) for value in block.inputs[at : at + 3])
    if scale is None or mul is None or add is None:
        return False
    channels, name = len(scale), str(block.name)
    bias = _take_bias(block.inputs[at + 3], channels)
    if (mul == 1).all() and bias is None:
        return False
    ones = constant(graph, np.ones(channels, np.float32), f'ones_{channels}')
    block.replace_input_with(at, constant(graph, scale * mul, f'{name}.scale_mul'))
    block.replace_input_with(at + 1, ones)
    if bias is not None:
        block.replace_input_with(at + 2, constant(graph, add + bias, f'{name}.add_bias'))
    return True


def _take_bias(residual: ir.Value | None, channels: int) -> Vector | None:
    """The bias of the convolution that gives a residual and nothing else, which has none afterwards."""
    conv = None if residual is None else residual.producer()
    if residual is None or conv is None or conv.op_type != 'Conv' or conv.domain != '' or len(conv.inputs) != 3:
        return None
    if only_use(residual) is None:
        return None
    array = constant_array(conv.inputs[2])
    if array is None or array.shape != (channels,) or array.dtype != np.float32:
        return None
    conv.resize_inputs(2)
    return array
