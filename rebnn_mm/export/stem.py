"""Joins the real-valued stem of a residual network into one operator."""

from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from .fuse import constant_array, constant_per_channel, remove_unused
from .operators import DOMAIN, DOMAIN_VERSION, attach_functions

CONV = {'kernel_shape': [7, 7], 'strides': [2, 2], 'pads': [3, 3, 3, 3], 'dilations': [1, 1], 'group': 1}
POOL = {'kernel_shape': [3, 3], 'strides': [2, 2], 'pads': [1, 1, 1, 1], 'dilations': [1, 1], 'ceil_mode': 0}
DEFAULTS = {'dilations': [1, 1], 'group': 1, 'ceil_mode': 0, 'auto_pad': 'NOTSET', 'storage_order': 0}

MOST_CHANNELS = 4
"""Most input channels that the kernel takes."""

Vector = NDArray[np.float32]


@dataclass
class _Stem:
    """A convolution and what follows it, up to its pooling."""

    nodes: list[ir.Node]
    mul: Vector
    add: Vector
    relu: bool = False


def join_stem(model: onnx.ModelProto) -> onnx.ModelProto:
    """Turn a 7x7 convolution of stride 2, its batch norm and 3x3 max pooling of stride 2 into one ``RealStem``.

    A ReLU between them goes behind the pooling, which does not change the result. Our kernel computes the operator by
    Winograd's minimal filtering: in float32, but not with the last bit that its function gives.

    Args:
        model: from :func:`rebnn_mm.export.trace`; it is not changed.

    Returns:
        onnx.ModelProto: the same object if there is no such stem.

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
    stems = [stem for node in joined.graph if (stem := _stem(node)) is not None]
    if not stems:
        return model
    for stem in stems:
        _join(joined.graph, stem)
    remove_unused(joined.graph)
    return attach_functions(ir.to_proto(joined))


def halve_stem(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let every ``RealStem`` multiply 16-bit numbers where a processor has them.

    Args:
        model: from :func:`join_stem`, or what was made of it; it is not changed.

    Example:
        >>> stem = onnx.helper.make_node('RealStem', ['x', 'w', 'm', 'a'], ['y'], domain='rebnn')
        >>> model = onnx.helper.make_model(onnx.helper.make_graph([stem], 'g', [], []))
        >>> [(a.name, a.s) for a in halve_stem(model).graph.node[0].attribute]
        [('precision', b'half')]
    """
    halved = onnx.ModelProto()
    halved.CopyFrom(model)
    for node in halved.graph.node:
        if node.op_type == 'RealStem' and node.domain == DOMAIN:
            node.attribute.append(onnx.helper.make_attribute('precision', 'half'))
    return halved


def _stem(conv: ir.Node) -> _Stem | None:
    """The stem that begins with a node, if one does."""
    if conv.op_type != 'Conv' or conv.domain != '' or not _has(conv, CONV):
        return None
    weight = constant_array(conv.inputs[1])
    if weight is None or weight.dtype != np.float32 or weight.shape[1] > MOST_CHANNELS:
        return None
    bias = np.zeros(len(weight), np.float32) if len(conv.inputs) < 3 else constant_array(conv.inputs[2])
    if bias is None:
        return None
    stem = _Stem([conv], np.ones(len(weight), np.float32), bias)
    while True:
        uses = list(stem.nodes[-1].outputs[0].uses())
        if len(uses) != 1 or stem.nodes[-1].outputs[0].is_graph_output():
            return None
        node, index = uses[0]
        if node.domain != '':
            return None
        stem.nodes.append(node)
        if node.op_type == 'MaxPool':
            return stem if len(node.outputs) == 1 and _has(node, POOL) else None
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


def _join(graph: ir.Graph, stem: _Stem) -> None:
    conv, pool = stem.nodes[0], stem.nodes[-1]
    x, weight = conv.inputs[:2]
    assert weight is not None and weight.name is not None
    name = weight.name.removesuffix('.weight')  # a node of ours is named after its layer
    vectors = (_constant(graph, f'{name}.mul', stem.mul), _constant(graph, f'{name}.add', stem.add))
    joined = ir.node(
        'RealStem', [x, weight, *vectors], {'layout': 'NCHW'}, domain=DOMAIN, version=DOMAIN_VERSION, name=name
    )
    graph.insert_before(pool, joined)
    result, last = pool.outputs[0], joined
    if stem.relu:
        joined.outputs[0].name = f'{result.name}_before_relu'
        last = ir.node('Relu', [joined.outputs[0]], name=f'{name}.relu')
        graph.insert_before(pool, last)
    new = last.outputs[0]
    new.name, new.shape, new.type = result.name, result.shape, result.type
    result.name = f'{result.name}_replaced'
    result.replace_all_uses_with(new, replace_graph_outputs=True)
    graph.remove(list(reversed(stem.nodes)), safe=True)


def _has(node: ir.Node, wanted: dict[str, object]) -> bool:
    for key, value in (DEFAULTS | wanted).items():
        found = node.attributes[key].value if key in node.attributes else DEFAULTS.get(key)
        if (list(found) if isinstance(found, tuple | list) else found) != value:
            return False
    return True


def _constant(graph: ir.Graph, name: str, vector: Vector) -> ir.Value:
    value = ir.val(name, const_value=ir.tensor(vector, name=name))
    graph.register_initializer(value)
    return value
