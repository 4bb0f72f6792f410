"""Leaves out of a finished graph what a reader does not need."""

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes import InPlacePass, PassResult

from ..operators import DOMAIN, operator_function
from ..rewriting import constant_array, must_be_stored, take_over

SMALLEST = 16
"""A shorter vector of one value is left as it is: to state it otherwise takes as many bytes."""


class Compact(InPlacePass):
    """Make a finished graph smaller without changing what it computes.

    Vectors of one and the same value (a shift of 0, a slope of 1) are made by ``ConstantOfShape`` instead of stored;
    attributes with their default values, sizes of values inside the graph and the names of standard nodes are left
    out.

    Example:
        >>> zeros = ir.val('zeros', const_value=ir.tensor(np.zeros(64, np.float32)))
        >>> negated = ir.node('Neg', [zeros])
        >>> graph = ir.Graph([], negated.outputs, nodes=[negated], initializers=[zeros])
        >>> _ = Compact()(ir.Model(graph, ir_version=9))
        >>> [node.op_type for node in graph]
        ['ConstantOfShape', 'Neg']
    """

    def call(self, model: ir.Model) -> PassResult:
        graph = model.graph
        _make_constants(graph)
        for node in graph:
            if node.domain == '':
                node.name = None
        ours = {node.op_type for node in graph if node.domain == DOMAIN}
        defaults = {kind: {item.name: item for item in operator_function(kind).attribute_proto} for kind in ours}
        for node in graph:
            for name, default in defaults.get(node.op_type, {}).items() if node.domain == DOMAIN else ():
                if name in node.attributes and ir.to_proto(node.attributes[name]) == default:
                    del node.attributes[name]
        for value in [*graph.initializers.values(), *(value for node in graph for value in node.outputs)]:
            if not value.is_graph_output() and not value.is_graph_input():
                value.shape = value.type = None
        return PassResult(model, True)


def _make_constants(graph: ir.Graph) -> None:
    lengths: dict[int, ir.Value] = {}
    nodes = []
    for name, value in list(graph.initializers.items()):
        array = constant_array(value)
        if array is None or not _is_long_constant(array) or value.is_graph_output() or must_be_stored(value):
            continue
        length = len(array)
        if length not in lengths:
            lengths[length] = ir.val(f'length_{length}', const_value=ir.tensor(np.array([length], np.int64)))
        made = ir.node('ConstantOfShape', [lengths[length]], {'value': ir.tensor(array[:1])})
        del graph.initializers[name]
        take_over(value, made.outputs[0])
        nodes.append(made)
    for stored in lengths.values():
        graph.register_initializer(stored)
    if nodes:
        graph.insert_before(graph[0], nodes)


def _is_long_constant(array: NDArray) -> bool:
    """Whether an array is a long float32 vector of one value; zero and negative zero are two."""
    if array.dtype != np.float32 or array.ndim != 1 or len(array) < SMALLEST:
        return False
    bits = array.view(np.uint32)
    return bool((bits == bits[0]).all())
