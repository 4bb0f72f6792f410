"""Puts binary convolutions and what connects them into the order [N, H, W, C]."""

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.convenience import replace_nodes_and_values

from ..operators import DOMAIN
from ..rewriting import (
    BLOCKS,
    DEFAULTS,
    RESIDUAL,
    Rewrite,
    constant,
    constant_array,
    demand,
    has_attributes,
    only_use,
    operator,
)

TO_LAST = [0, 2, 3, 1]
TO_FIRST = [0, 3, 1, 2]
AXIS = {0: 0, 1: 3, 2: 1, 3: 2}
"""Position of each axis of [N, C, H, W] in [N, H, W, C]."""

CONVOLUTIONS = {
    'BinaryConv': [0],
    'PackedBinaryConv': [],
    **{block: [0, residual] if block in BLOCKS else [residual] for block, residual in RESIDUAL.items()},
}
"""Binary convolutions, and which of their inputs are images."""

SAME_SIZE = (
    *('Add', 'Clip', 'Concat', 'Div', 'Exp', 'HardSigmoid', 'HardSwish', 'Identity', 'LeakyRelu', 'Max', 'Min', 'Mul'),
    *('Neg', 'PRelu', 'Relu', 'Sigmoid', 'Sub', 'Tanh'),
)
"""Standard operators that work in either order and give as many numbers as they read."""

FIRST_ONLY = ('AveragePool', 'Clip', 'Conv', 'Resize', 'RoiAlign')
"""Operators of which only the first input is an image."""

ROI_ALIGN: dict[str, Any] = {'output_height': 1, 'output_width': 1, 'spatial_scale': 1.0}
"""Attributes of ``RoiAlign`` that ``RealRoiAlign`` wants written out, with their defaults."""

PLAIN = {key: DEFAULTS[key] for key in ('dilations', 'pads', 'auto_pad', 'group', 'count_include_pad')}
"""Attributes of a convolution or pooling without border, dilation and groups."""


Region = set[ir.Node]


class ChannelsLast(Rewrite):
    """Let regions of binary convolutions work with the channels last, where their kernels are faster.

    A region grows from the convolutions over standard operators that do the same in either order: elementwise ones,
    ``Concat``, ``Resize`` (by 2 and with an addition after it ``RealUpsampleAdd``), average pooling of 2x2 squares
    (``RealAveragePool``) and 1x1 convolutions (``MatMul``). It takes in what reads only from it and makes no more
    numbers of that, what only it reads and that makes no fewer, and what reads from it and is read by it. Where a
    value enters or leaves there is a ``Transpose``; a mean over all positions and a shape are taken of either order. A
    region stays as it is if more channels enter and leave than its binary convolutions give: sizes of images are free,
    so channels are counted.

    Values stay as they are to the last bit, but for real sums, those of a mean over all positions and of a 1x1
    convolution, which ONNX Runtime may take in another order, and with ``regions`` those of ``RoiAlign``.

    Args:
        regions: take in ``RoiAlign``, which becomes ``RealRoiAlign``.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from rebnn_mm.export import pack, apply_passes, trace
        >>> from rebnn_mm.export.passes import FuseBlocks
        >>> from rebnn_mm.models import BinaryReActBlock
        >>> net = nn.Sequential(*(BinaryReActBlock(8, 8, conv_cfg=dict(type='ReBNNConv2d')) for _ in range(2)))
        >>> model = trace(pack(net).model, {'x': torch.ones(1, 8, 4, 4)}, ['y'])
        >>> [node.op_type for node in apply_passes(model, FuseBlocks(), ChannelsLast()).graph.node]
        ['Transpose', 'BinaryBlock', 'PackedBinaryBlock', 'PackedBinaryBlock', 'PackedBinaryBlock', 'Transpose']
    """

    def __init__(self, regions: bool = False) -> None:
        self.regions = regions

    def requires(self, model: ir.Model) -> None:
        demand(all(node.op_type != 'QuantizeLinear' for node in model.graph), 'int8 layers are not moved.')

    def rewrite(self, graph: ir.Graph) -> bool:
        region = _worth_it(_grow_region(graph, self.regions))
        if not region:
            return False
        mover = _Mover(graph)
        for node in list(graph):
            if node in region:
                mover.move(node)
        for node in list(graph):
            if _is_transpose(node, TO_FIRST):
                _read_directly(graph, node)
                if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
                    graph.remove(node, safe=True)
        for node in list(graph):
            if node.op_type == 'Add' and node.domain == '':
                _join_upsampling(graph, node)
        return True


def _grow_region(graph: ir.Graph, regions: bool) -> Region:
    """Collect every node that could work with the channels last."""
    region = {node for node in graph if _is_convolution(node)}
    candidates = [(node, grows) for node in graph if (grows := _growth(node)) is not None]
    if not regions:
        candidates = [(node, grows) for node, grows in candidates if node.op_type != 'RoiAlign']
    size = -1
    while len(region) != size:
        size = len(region)
        for node, grows in [*candidates, *reversed(candidates)]:
            output = node.outputs[0]
            inputs = [value.producer() in region for value in _maps(node)]
            readers = [reader in region and output in _maps(reader) for reader, _ in output.uses()]
            behind = bool(inputs) and all(inputs)
            before = any(readers) and all(readers) and not output.is_graph_output()
            between = any(inputs) and any(readers)
            if any(value.producer() not in region and not _is_image(value) for value in _maps(node)):
                continue
            if between or (behind and grows <= 0) or (before and grows >= 0 and len(inputs) < 2):
                region.add(node)
    return region


def _is_image(value: ir.Value) -> bool:
    node = value.producer()
    makes_one = node is not None and node.op_type in ('RealStem', 'RoiAlign')
    return makes_one or (value.shape is not None and len(value.shape) == 4)


def _worth_it(region: Region) -> Region:
    """The nodes of those connected parts through whose borders go no more channels than their convolutions give."""
    kept: Region = set()
    left = set(region)
    while left:
        part = _find_connected(left)
        left -= part
        inside = {node.outputs[0] for node in part}
        entering = {value for node in part for value in _maps(node)} - inside
        leaving = {value for value in inside if value.is_graph_output()}
        for value in inside:
            if any(reader not in part and not _takes_either(reader) for reader, _ in value.uses()):
                leaving.add(value)
        given = sum(_channels(node.outputs[0]) for node in part if _is_convolution(node))
        if sum(map(_channels, entering | leaving)) <= given:
            kept |= part
    return kept


def _find_connected(nodes: Region) -> Region:
    """Some of the nodes and all that they are connected with."""
    part, ahead = set(), {next(iter(nodes))}
    while ahead:
        node = ahead.pop()
        part.add(node)
        around = {value.producer() for value in node.inputs if value is not None}
        around |= {reader for value in node.outputs for reader, _ in value.uses()}
        ahead |= {other for other in around if other is not None and other in nodes} - part
    return part


def _channels(value: ir.Value) -> int:
    """Channels of an image; 1 if nothing tells them."""
    node = value.producer()
    if node is not None and _is_convolution(node):
        weight = constant_array(node.inputs[1])
        return 1 if weight is None else len(weight)
    if value.shape is not None and isinstance(value.shape[1], int):
        return value.shape[1]
    for reader, index in value.uses():
        if index == 0 and reader.domain == DOMAIN and reader.op_type in ('BinaryConv', *BLOCKS):
            return reader.attributes['channels'].as_int() * reader.attributes.get_int('group', 1)
    return 1


def _is_convolution(node: ir.Node) -> bool:
    return node.domain == DOMAIN and node.op_type in CONVOLUTIONS


def _growth(node: ir.Node) -> int | None:
    """Whether a node gives more numbers than it reads (1), as many (0) or fewer (-1); None if it cannot be moved."""
    if node.domain == DOMAIN:
        return 0 if node.op_type == 'RealStem' else None
    if node.domain != '' or len(node.outputs) != 1:
        return None
    if node.op_type in SAME_SIZE:
        return 0
    if node.op_type == 'RoiAlign':
        return 0 if node.attributes.get_string('mode', 'avg') == 'avg' else None
    if node.op_type == 'Resize':
        return 1 if 'axes' not in node.attributes and (len(node.inputs) < 2 or node.inputs[1] is None) else None
    if node.op_type == 'AveragePool':
        halves = has_attributes(node, **PLAIN, kernel_shape=[2, 2], strides=[2, 2])
        return -1 if halves else None
    weight = _pointwise(node) if node.op_type == 'Conv' else None
    return None if weight is None else int(np.sign(weight.shape[0] - weight.shape[1]))


def _maps(node: ir.Node) -> list[ir.Value]:
    """The images that a node of a region reads, without constants."""
    if node.domain == DOMAIN:
        inputs = [node.inputs[index] for index in CONVOLUTIONS.get(node.op_type, [])]
    else:
        inputs = list(node.inputs[:1] if node.op_type in FIRST_ONLY else node.inputs)
    return [value for value in inputs if value is not None and constant_array(value) is None]


def _takes_either(node: ir.Node) -> bool:
    """Whether a node outside of a region can read an image in either order; see :func:`_read_directly`."""
    return _is_transpose(node, TO_LAST) or _is_global_mean(node) or (node.op_type == 'Shape' and not node.attributes)


def _is_transpose(node: ir.Node, perm: list[int]) -> bool:
    """Whether a node is a ``Transpose`` of this kind."""
    return node.op_type == 'Transpose' and node.domain == '' and list(node.attributes['perm'].as_ints()) == perm


class _Mover:
    """Moves nodes one after another, in their order: each then reads images with the channels last and gives one.

    A ``Transpose`` after it gives the image as it was before; nodes that are moved later read before that.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.last: dict[ir.Value, ir.Value] = {}
        self.sizes: dict[ir.Value, ir.Value] = {}

    def move(self, node: ir.Node) -> None:
        """Move a node for which :func:`_growth` gives a number, or a binary convolution."""
        images = _maps(node)
        if node.op_type in SAME_SIZE and node.op_type != 'Clip':
            self._turn_constants(node)
        for index, value in enumerate(node.inputs):
            if value is not None and value in images:
                node.replace_input_with(index, self._last(value, node))
        if node.domain == DOMAIN:
            node.attributes['layout'] = ir.AttrString('layout', 'NHWC')
        elif node.op_type == 'Concat':
            node.attributes['axis'] = ir.AttrInt64('axis', AXIS[node.attributes['axis'].as_int() % 4])
        elif node.op_type == 'Resize':
            self._turn_sizes(node)
        elif node.op_type == 'AveragePool':
            ceil = {'ceil_mode': node.attributes.get_int('ceil_mode', 0)}
            node = self._exchange(node, operator('RealAveragePool', node.inputs[:1], ceil, node.name))
        elif node.op_type == 'RoiAlign':
            options = {name: attribute.value for name, attribute in node.attributes.items() if name != 'mode'}
            node = self._exchange(node, operator('RealRoiAlign', node.inputs, ROI_ALIGN | options, node.name))
        elif node.op_type == 'Conv':
            node = self._replace_pointwise(node)
        self._give_first(node)

    def _last(self, value: ir.Value, reader: ir.Node) -> ir.Value:
        if value not in self.last:
            node = self._before(reader, ir.node('Transpose', [value], {'perm': TO_LAST}))
            self.last[value] = _describe(node.outputs[0], f'{value.name}_last', value, turned=True)
        return self.last[value]

    def _give_first(self, node: ir.Node) -> None:
        last = node.outputs[0]
        transpose = ir.node('Transpose', [last], {'perm': TO_FIRST})
        self.graph.insert_after(node, transpose)
        first = _describe(transpose.outputs[0], str(last.name), last)
        last.replace_all_uses_with(first, replace_graph_outputs=True)
        transpose.replace_input_with(0, last)
        _describe(last, f'{last.name}_last', last, turned=True)
        self.last[first] = last

    def _turn_constants(self, node: ir.Node) -> None:
        for index, value in enumerate(node.inputs):
            array = constant_array(value)
            if value is None or array is None or array.size == 1:
                continue
            array = array.reshape((1,) * (4 - array.ndim) + array.shape).transpose(TO_LAST)
            if node.op_type != 'Concat' and array.shape[:3] == (1, 1, 1):
                array = array.reshape(-1)
            node.replace_input_with(index, constant(self.graph, array, f'{value.name}_last'))

    def _turn_sizes(self, node: ir.Node) -> None:
        for index, value in enumerate(node.inputs):
            if index >= 2 and value is not None:
                if value not in self.sizes:  # images that grow by the same factor share it
                    self.sizes[value] = self._turn_size(value, node)
                node.replace_input_with(index, self.sizes[value])

    def _turn_size(self, size: ir.Value, reader: ir.Node) -> ir.Value:
        known = constant_array(size)
        if known is not None:
            return constant(self.graph, known[TO_LAST], f'{size.name}_last')
        order = constant(self.graph, np.array(TO_LAST), 'axes_to_last')
        turned = self._before(reader, ir.node('Gather', [size, order], {'axis': 0}))
        return _describe(turned.outputs[0], f'{size.name}_last', size)

    def _replace_pointwise(self, node: ir.Node) -> ir.Node:
        x, weight, *bias = node.inputs
        matrix = _pointwise(node)
        assert matrix is not None and weight is not None
        factor = constant(self.graph, matrix.T, f'{weight.name}_matrix')
        product = ir.node('MatMul', [x, factor], name=node.name)
        if not bias:
            return self._exchange(node, product)
        self._before(node, product)
        _describe(product.outputs[0], f'{node.outputs[0].name}_product', node.outputs[0], turned=True)
        return self._exchange(node, ir.node('Add', [product.outputs[0], bias[0]]))

    def _before(self, reader: ir.Node, node: ir.Node) -> ir.Node:
        self.graph.insert_before(reader, node)
        return node

    def _exchange(self, old: ir.Node, new: ir.Node) -> ir.Node:
        replace_nodes_and_values(self.graph, old, [old], [new], old.outputs, new.outputs)
        return new


def _join_upsampling(graph: ir.Graph, add: ir.Node) -> None:
    """Turn this addition and a nearest ``Resize`` by 2 before it, with the channels last, into one operator."""
    for x, other in (add.inputs, add.inputs[::-1]):
        resize = None if x is None else x.producer()
        if resize is None or other is None or x is None or not _doubles(resize) or only_use(x) is None:
            continue
        if x.shape is None or other.shape is None or len(other.shape) != 4 or x.shape[3] != other.shape[3]:
            continue
        joined = operator('RealUpsampleAdd', [resize.inputs[0], other], {}, resize.name)
        replace_nodes_and_values(graph, add, [resize, add], [joined], add.outputs, joined.outputs)
        return


def _doubles(node: ir.Node) -> bool:
    scales = constant_array(node.inputs[2]) if node.op_type == 'Resize' and len(node.inputs) == 3 else None
    nearest = {'mode': 'nearest', 'coordinate_transformation_mode': 'asymmetric', 'nearest_mode': 'floor'}
    return scales is not None and scales.tolist() == [1, 2, 2, 1] and has_attributes(node, **nearest)


def _read_directly(graph: ir.Graph, transpose: ir.Node) -> None:
    """Let readers of an image with the channels first read the one with the channels last, if that costs nothing."""
    (last,) = transpose.inputs
    assert last is not None
    for node in {reader for reader, _ in transpose.outputs[0].uses() if _takes_either(reader)}:
        if _is_transpose(node, TO_LAST):
            node.outputs[0].replace_all_uses_with(last, replace_graph_outputs=True)
        elif node.op_type == 'Shape':
            _shape_of_last(graph, node, last)
        else:
            _mean_of_last(graph, node, last)


def _shape_of_last(graph: ir.Graph, node: ir.Node, last: ir.Value) -> None:
    shape = ir.node('Shape', [last])
    shape.outputs[0].name = f'{node.outputs[0].name}_last'
    order = constant(graph, np.array(TO_FIRST), 'axes_to_first')
    turned = ir.node('Gather', [shape.outputs[0], order], {'axis': 0})
    replace_nodes_and_values(graph, node, [node], [shape, turned], node.outputs, turned.outputs)


def _mean_of_last(graph: ir.Graph, node: ir.Node, last: ir.Value) -> None:
    """Take the mean over rows and columns; whoever flattens the result anyway reads it without these two axes."""
    axes = constant(graph, np.array([1, 2]), 'rows_and_columns')
    new = [ir.node('ReduceMean', [last, axes], {'keepdims': 0})]
    old, flat = node.outputs[0], new[0].outputs[0]
    if node.attributes.get_int('keepdims', 1):
        flat.name, flat.type = f'{old.name}_flat', old.type
        for reader in [reader for reader, _ in old.uses() if _flattens(reader)]:
            reader.outputs[0].replace_all_uses_with(flat)
        new.append(ir.node('Unsqueeze', [flat, constant(graph, np.array([2, 3]), 'behind_channels')]))
    replace_nodes_and_values(graph, node, [node], new, [old], new[-1].outputs)


def _flattens(node: ir.Node) -> bool:
    """Whether a node turns [N, C, 1, 1] into [N, C] and does not name a graph's output."""
    if node.domain != '' or node.outputs[0].is_graph_output():
        return False
    if node.op_type == 'Flatten':
        return node.attributes.get_int('axis', 1) == 1
    shape = node.outputs[0].shape
    source = node.inputs[0].shape if node.inputs[0] is not None else None
    if node.op_type != 'Reshape' or shape is None or source is None or len(shape) != 2:
        return False
    return isinstance(shape[1], int) and shape[1] == source[1]


def _is_global_mean(node: ir.Node) -> bool:
    if node.domain != '' or not node.inputs or node.inputs[0] is None:
        return False
    if node.op_type == 'ReduceMean':
        axes = constant_array(node.inputs[1]) if len(node.inputs) > 1 else None
        return axes is not None and sorted(int(axis) % 4 for axis in axes.flat) == [2, 3]
    shape = node.inputs[0].shape
    whole = shape is not None and has_attributes(node, **PLAIN, kernel_shape=list(shape[2:]))
    return node.op_type == 'GlobalAveragePool' or (node.op_type == 'AveragePool' and whole)


def _pointwise(conv: ir.Node) -> NDArray | None:
    """The weight of a convolution, [O, C], if every pixel goes through it alone."""
    weight, *bias = (constant_array(value) for value in conv.inputs[1:])
    if weight is None or weight.shape[2:] != (1, 1) or any(array is None for array in bias):
        return None
    return weight[:, :, 0, 0] if has_attributes(conv, **PLAIN, strides=[1, 1]) else None


def _describe(value: ir.Value, name: str, like: ir.Value, turned: bool = False) -> ir.Value:
    shape = like.shape
    if turned and shape is not None:
        shape = ir.Shape([shape[axis] for axis in TO_LAST])
    value.name, value.shape, value.type = name, shape, like.type
    return value
