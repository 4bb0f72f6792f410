"""Joins the real-valued stem of a residual network into one operator."""

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from .fuse import constant_array, constant_per_channel, remove_unused
from .operators import DOMAIN, DOMAIN_VERSION, attach_functions

CONV = {'kernel_shape': [7, 7], 'strides': [2, 2], 'pads': [3, 3, 3, 3], 'dilations': [1, 1], 'group': 1}
POOL = {'kernel_shape': [3, 3], 'strides': [2, 2], 'pads': [1, 1, 1, 1], 'dilations': [1, 1], 'ceil_mode': 0}
DEFAULTS = {'dilations': [1, 1], 'group': 1, 'ceil_mode': 0}
MOST_CHANNELS = 4


def join_stem(model: onnx.ModelProto) -> onnx.ModelProto:
    """Turn a 7x7 convolution of stride 2, its batch norm and 3x3 max pooling into one ``RealStem``.

    A ReLU between them goes behind the pooling, which does not change the result. Our kernel computes the operator by
    minimal filtering: in float32, but not to the last bit what its function gives.

    Args:
        model: from :func:`rebnn_mm.export.trace`; it is not changed.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from rebnn_mm.export import trace
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1)).eval()
        >>> model = trace(net, {'image': torch.zeros(2, 3, 32, 32)}, ['y'])
        >>> [node.op_type for node in join_stem(model).graph.node]
        ['RealStem', 'Relu']
    """
    joined = ir.from_proto(model)
    graph = joined.graph
    found = False
    for node in list(graph):
        if node.op_type == 'Conv' and node.domain == '':
            found = _join(graph, node) or found
    if not found:
        return model
    remove_unused(graph)
    return attach_functions(ir.to_proto(joined))


def _join(graph: ir.Graph, conv: ir.Node) -> bool:
    weight = constant_array(conv.inputs[1])
    if not _has(conv, CONV) or weight is None or weight.shape[1] > MOST_CHANNELS:
        return False
    channels = len(weight)
    mul = np.ones(channels, np.float32)
    add = np.zeros(channels, np.float32)
    if len(conv.inputs) == 3:
        bias = constant_array(conv.inputs[2])
        if bias is None:
            return False
        add = bias.astype(np.float32)
    nodes, end, relu = [conv], conv.outputs[0], None
    while True:
        follower = _only_reader(end)
        if follower is None:
            return False
        node, index = follower
        operand = None if len(node.inputs) != 2 else constant_per_channel(node.inputs[1 - index], channels)
        if relu is None and node.op_type in ('Mul', 'Add') and operand is not None:
            if node.op_type == 'Mul' and not add.any():
                mul = mul * operand
            elif node.op_type == 'Add':
                add = add + operand
            else:
                return False
        elif relu is None and node.op_type == 'Relu':
            relu = node
        elif node.op_type == 'MaxPool' and len(node.outputs) == 1 and _has(node, POOL):
            break
        else:
            return False
        nodes.append(node)
        end = node.outputs[0]
    pool = node
    stem = ir.node(
        'RealStem',
        [conv.inputs[0], conv.inputs[1], *(_constant(graph, conv, *pair) for pair in (('mul', mul), ('add', add)))],
        {'layout': 'NCHW'},
        domain=DOMAIN,
        version=DOMAIN_VERSION,
        name=f'{conv.name}.stem',
        num_outputs=1,
    )
    graph.insert_before(pool, stem)
    result = pool.outputs[0]
    last = stem
    if relu is not None:
        last = ir.node('Relu', [stem.outputs[0]], name=f'{conv.name}.relu')
        stem.outputs[0].name = f'{result.name}_before_relu'
        graph.insert_before(pool, last)
    new = last.outputs[0]
    new.name, new.shape, new.type = result.name, result.shape, result.type
    result.name = f'{result.name}_replaced'
    result.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove([pool, *reversed(nodes)], safe=True)
    return True


def _has(node: ir.Node, wanted: dict[str, object]) -> bool:
    if 'auto_pad' in node.attributes and node.attributes['auto_pad'].as_string() != 'NOTSET':
        return False
    for key, value in wanted.items():
        found = node.attributes[key].value if key in node.attributes else DEFAULTS.get(key)
        if (list(found) if isinstance(found, tuple | list) else found) != value:
            return False
    return True


def _only_reader(value: ir.Value) -> tuple[ir.Node, int] | None:
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output() or uses[0][0].domain != '':
        return None
    return uses[0]


def _constant(graph: ir.Graph, conv: ir.Node, name: str, vector: NDArray[np.float32]) -> ir.Value:
    full = f'{conv.name}.{name}'
    value = ir.val(full, const_value=ir.tensor(vector.astype(np.float32), name=full))
    graph.register_initializer(value)
    return value
