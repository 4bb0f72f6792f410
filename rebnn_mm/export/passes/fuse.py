"""Joins each binary convolution with what follows it, up to the next one's sign."""

import numpy as np
import onnx_ir as ir
from onnx_ir.convenience import replace_nodes_and_values

from ..operators import DOMAIN
from ..rewriting import (
    BLOCKS,
    Rewrite,
    Vector,
    constant,
    constant_array,
    constant_per_channel,
    demand,
    only_use,
    operator,
)

OPTIONS = ('channels', 'strides', 'dilations', 'pads', 'group', 'pad_value', 'layout')


class FuseBlocks(Rewrite):
    """Turn ``BinaryConv`` and its followers into ``BinaryBlock``, and let blocks hand packed bits to the next one.

    A block takes in, as far as they follow in this order and nothing else looks at what lies between: factor and
    summand per channel (batch norm), residual, summand, PReLU (or ReLU, leaky ReLU), summand, clipping from a
    negative to a positive number (Hardtanh), which makes it a ``BinaryClipBlock``. No floating-point operation changes
    its place. Where a block's output goes into binary convolutions, these read its bits; a clipping in between that
    could not be taken in is passed over where it cannot change a sign.

    Example:
        >>> import torch
        >>> from rebnn_mm.export import pack, apply_passes, trace
        >>> from rebnn_mm.models import BinaryReActBlock
        >>> block = BinaryReActBlock(8, 8, conv_cfg=dict(type='ReBNNConv2d'))
        >>> model = trace(pack(block).model, {'x': torch.ones(1, 8, 4, 4)}, ['y'])
        >>> [node.op_type for node in apply_passes(model, FuseBlocks()).graph.node]
        ['BinaryBlock', 'PackedBinaryBlock']
    """

    def requires(self, model: ir.Model) -> None:
        layouts = (node.attributes['layout'] for node in model.graph if node.op_type in ('BinaryConv', *BLOCKS))
        demand(all(layout.as_string() == 'NCHW' for layout in layouts), 'residuals are known with the channels first.')

    def rewrite(self, graph: ir.Graph) -> bool:
        constants = _Constants(graph)
        for node in list(graph):
            if node.domain == DOMAIN and node.op_type == 'BinaryConv':
                _fuse_block(graph, node, constants)
        for node in reversed(list(graph)):  # later ones first: those that read bits are exchanged
            if node.domain == DOMAIN and node.op_type in BLOCKS:
                _hand_on_bits(graph, node)
        return True


class _Constants:
    """Vectors as initializers of a graph; equal vectors are one initializer."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.known: dict[tuple[tuple[int, ...], bytes], ir.Value] = {}
        for value in graph.initializers.values():
            vector = constant_array(value)
            if vector is not None and vector.dtype == np.float32 and vector.ndim == 1:
                self.known[vector.shape, vector.tobytes()] = value

    def __call__(self, vector: Vector, name: str) -> ir.Value:
        key = vector.shape, vector.tobytes()
        if key not in self.known:
            self.known[key] = constant(self.graph, vector, name)
        return self.known[key]


class _Chain:
    """Operands taken into a block so far."""

    SLOTS = ('mul', 'add', 'R', 'pre', 'slope', 'post', 'clip')
    VECTORS = ('mul', 'add', 'pre', 'slope', 'post')

    def __init__(self, conv: ir.Node, bias: Vector) -> None:
        self.channels = len(bias)
        self.end = conv.outputs[0]
        self.vectors: dict[str, Vector] = {}
        self.residual: ir.Value | None = None
        self.limits: tuple[float, float] | None = None
        self.nodes: list[ir.Node] = []
        self.filled = -1
        if bias.any():
            # (a * scale) * 1 + bias is what the convolution gives; a batch norm after a bias would not fit in.
            self.vectors['add'] = bias
            self.filled = self.SLOTS.index('add')

    def free(self, slot: str) -> bool:
        return self.SLOTS.index(slot) > self.filled

    def follow(self) -> bool:
        """Take in the next node, if there is one that fits."""
        use = only_use(self.end)
        if use is None or use[0].domain != '' or len(use[0].outputs) != 1:
            return False
        node, index = use
        slot = self._slot(node, index)
        if slot is None:
            return False
        self.filled = self.SLOTS.index(slot)
        self.nodes.append(node)
        self.end = node.outputs[0]
        return True

    def _slot(self, node: ir.Node, index: int) -> str | None:
        """Put the node's operand into the slot where it fits, and name the slot; None if it fits nowhere."""
        if node.op_type in ('Mul', 'Add'):
            other = node.inputs[1 - index]
            vector = constant_per_channel(other, self.channels)
            if vector is not None:
                slots = ('mul',) if node.op_type == 'Mul' else ('add', 'pre', 'post')
                return next((self._put(slot, vector) for slot in slots if self.free(slot)), None)
            if node.op_type == 'Add' and self.free('R') and self._is_residual(other):
                self.residual = other
                return 'R'
            return None
        limits = _limits(node)
        if limits is not None and index == 0 and limits[0] < 0 < limits[1] and self.free('clip'):
            self.limits = limits
            return 'clip'
        slope = _slope(node, self.channels)
        return self._put('slope', slope) if slope is not None and self.free('slope') else None

    def _put(self, slot: str, vector: Vector) -> str:
        self.vectors[slot] = vector
        return slot

    def _is_residual(self, value: ir.Value | None) -> bool:
        """Whether a value has the convolution's shape; free sizes are equal, or torch could not add them."""
        ours = self.end.shape
        theirs = None if value is None else value.shape
        if value is None or value is self.end or ours is None or theirs is None or len(theirs) != len(ours):
            return False
        return all(
            a == b if isinstance(a, int) and isinstance(b, int) else not (isinstance(a, int) or isinstance(b, int))
            for a, b in zip(ours, theirs, strict=True)
        )


def _fuse_block(graph: ir.Graph, conv: ir.Node, constants: _Constants) -> None:
    x, weight, shift, scale, bias = conv.inputs
    start = constant_array(bias)
    if start is None:
        return
    chain = _Chain(conv, start)
    while chain.follow():
        pass
    if not chain.nodes:
        return
    name, channels = str(conv.name), chain.channels
    ones = constants(np.ones(channels, np.float32), f'ones_{channels}')
    zeros = constants(np.zeros(channels, np.float32), f'zeros_{channels}')
    vectors = {slot: ones if slot in ('mul', 'slope') else zeros for slot in _Chain.VECTORS}
    vectors |= {slot: constants(vector, f'{name}.{slot}') for slot, vector in chain.vectors.items()}
    residual = chain.residual or constants(np.zeros((1, 1, 1, 1), np.float32), 'no_residual')
    options = _options(conv)
    if chain.limits is not None:
        options |= {key: ir.AttrFloat32(key, limit) for key, limit in zip(('low', 'high'), chain.limits, strict=True)}
    block = operator(
        'BinaryBlock' if chain.limits is None else 'BinaryClipBlock',
        [
            *(x, weight, shift, scale, vectors['mul'], vectors['add'], residual),
            *(vectors['pre'], vectors['slope'], vectors['post'], zeros),
        ],
        options,
        name,
    )
    taken = [conv, *chain.nodes]
    replace_nodes_and_values(graph, taken[-1], taken, [block], [chain.end], block.outputs)


def _hand_on_bits(graph: ir.Graph, block: ir.Node) -> None:
    """Give a block the second output if binary convolutions read the first, and let them read that."""
    y = block.outputs[0]
    readers = _readers(y)
    # A clipped value has its sign as long as nothing is added to it.
    clips = [node for node, _ in y.uses() if _keeps_signs(node)]
    clipped = [node for clip in clips for node in _readers(clip.outputs[0]) if not _shift(node).any()]
    readers += clipped
    if not readers:
        return
    shift = np.zeros_like(_shift(readers[0])) if clipped else _shift(readers[0])
    readers = [node for node in readers if np.array_equal(_shift(node), shift)]
    options = _options(block)
    inputs = [*block.inputs[:-1], readers[0].inputs[2]]
    named = operator(block.op_type, inputs, options, block.name, outputs=2)
    named.outputs[1].name = f'{y.name}_bits'
    replace_nodes_and_values(graph, block, [block], [named], [y], named.outputs[:1])
    for node in readers:
        _read_bits(graph, node, named.outputs[1])


def _read_bits(graph: ir.Graph, node: ir.Node, bits: ir.Value) -> None:
    inputs = [bits, node.inputs[1], *node.inputs[3:]]
    packed = operator(f'Packed{node.op_type}', inputs, _options(node), node.name, outputs=len(node.outputs))
    replace_nodes_and_values(graph, node, [node], [packed], node.outputs, packed.outputs)


def _readers(value: ir.Value) -> list[ir.Node]:
    """The binary convolutions that take the sign of a value and could read bits instead."""
    nodes = [node for node, index in value.uses() if index == 0 and node.domain == DOMAIN]
    return [
        node
        for node in nodes
        if node.op_type in ('BinaryConv', *BLOCKS)
        and node.attributes['group'].as_int() == 1
        and constant_array(node.inputs[2]) is not None
    ]


def _keeps_signs(node: ir.Node) -> bool:
    limits = _limits(node)
    return limits is not None and limits[0] < 0 <= limits[1]


def _limits(node: ir.Node) -> tuple[float, float] | None:
    """Between which numbers a node clips, if it does."""
    if node.op_type != 'Clip' or node.domain != '' or len(node.inputs) != 3:
        return None
    low, high = (constant_array(value) for value in node.inputs[1:])
    return None if low is None or high is None else (float(low), float(high))


def _shift(node: ir.Node) -> Vector:
    vector = constant_array(node.inputs[2])
    assert vector is not None
    return vector


def _options(node: ir.Node) -> dict[str, ir.Attr]:
    return {key: node.attributes[key] for key in (*OPTIONS, 'low', 'high') if key in node.attributes}


def _slope(node: ir.Node, channels: int) -> Vector | None:
    """The slope of negative values, if a node is one of the functions with such a slope."""
    if node.op_type == 'PRelu':
        return constant_per_channel(node.inputs[1], channels)
    if node.op_type == 'Relu':
        return np.zeros(channels, np.float32)
    if node.op_type == 'LeakyRelu':
        return np.full(channels, node.attributes.get_float('alpha', 0.01), np.float32)
    return None
