"""Joins the full-precision stem of a residual network into one operator."""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.convenience import replace_nodes_and_values

from ..rewriting import (
    DEFAULTS,
    Rewrite,
    Vector,
    constant,
    constant_array,
    constant_per_channel,
    has_attributes,
    only_use,
    operator,
)

PLAIN = {key: DEFAULTS[key] for key in ('dilations', 'group', 'ceil_mode', 'auto_pad', 'storage_order')}
CONV = PLAIN | {'kernel_shape': [7, 7], 'strides': [2, 2], 'pads': [3, 3, 3, 3]}
POOL = PLAIN | {'kernel_shape': [3, 3], 'strides': [2, 2], 'pads': [1, 1, 1, 1]}

MOST_CHANNELS = 4
"""Most input channels that the kernel takes."""


@dataclass
class _Stem:
    """A convolution and what follows it, up to its pooling."""

    nodes: list[ir.Node]
    mul: Vector
    add: Vector
    relu: bool = False


class JoinStem(Rewrite):
    """Turn a 7x7 convolution of stride 2, its batch norm and 3x3 max pooling of stride 2 into one ``RealStem``.

    A ReLU between them goes after the pooling, which does not change the result. Our kernel computes the operator by
    Winograd's minimal filtering: in float32, but not with the last bit that its function gives.

    Args:
        half: let it multiply 16-bit numbers where a processor has them.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from rebnn_mm.export import apply_passes, trace
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1)).eval()
        >>> model = trace(net, {'image': torch.zeros(2, 3, 32, 32)}, ['y'])
        >>> [node.op_type for node in apply_passes(model, JoinStem()).graph.node]
        ['RealStem', 'Relu']
    """

    def __init__(self, half: bool = False) -> None:
        self.half = half

    def rewrite(self, graph: ir.Graph) -> bool:
        stems = [stem for node in graph if (stem := _stem(node)) is not None]
        for stem in stems:
            _join(graph, stem, {'precision': 'half'} if self.half else {})
        return bool(stems)


def _stem(conv: ir.Node) -> _Stem | None:
    """The stem that begins with a node, if one does."""
    if conv.op_type != 'Conv' or conv.domain != '' or not has_attributes(conv, **CONV):
        return None
    weight = constant_array(conv.inputs[1])
    if weight is None or weight.dtype != np.float32 or weight.shape[1] > MOST_CHANNELS:
        return None
    bias = np.zeros(len(weight), np.float32) if len(conv.inputs) < 3 else constant_array(conv.inputs[2])
    if bias is None:
        return None
    stem = _Stem([conv], np.ones(len(weight), np.float32), bias)
    while True:
        use = only_use(stem.nodes[-1].outputs[0])
        if use is None or use[0].domain != '':
            return None
        node, index = use
        stem.nodes.append(node)
        if node.op_type == 'MaxPool':
            return stem if len(node.outputs) == 1 and has_attributes(node, **POOL) else None
        if node.op_type == 'Relu' and not stem.relu:
            stem.relu = True
            continue
        if node.op_type not in ('Mul', 'Add') or stem.relu:
            return None
        vector = constant_per_channel(node.inputs[1 - index], len(weight))
        if vector is None:
            return None
        if node.op_type == 'Mul':
            stem.mul, stem.add = stem.mul * vector, stem.add * vector
        else:
            stem.add = stem.add + vector


def _join(graph: ir.Graph, stem: _Stem, precision: dict[str, str]) -> None:
    x, weight = stem.nodes[0].inputs[:2]
    assert weight is not None and weight.name is not None
    name = weight.name.removesuffix('.weight')  # a node of ours is named after its layer
    vectors = (constant(graph, stem.mul, f'{name}.mul'), constant(graph, stem.add, f'{name}.add'))
    joined = operator('RealStem', [x, weight, *vectors], {'layout': 'NCHW', **precision}, name)
    new, result = [joined], stem.nodes[-1].outputs[0]
    if stem.relu:
        joined.outputs[0].name = f'{result.name}_before_relu'
        new.append(ir.node('Relu', joined.outputs, name=f'{name}.relu'))
    replace_nodes_and_values(graph, stem.nodes[-1], stem.nodes, new, [result], new[-1].outputs)
