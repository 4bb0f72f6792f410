"""Leaves out of a graph what changes no sign."""

import numpy as np
import onnx_ir as ir

from ..operators import DOMAIN
from ..rewriting import Rewrite, constant_array, only_use

SATURATED = -5.542572021484375
"""At this number and below, ONNX Runtime's GELU is -0: erf is rounded to -1. PyTorch's is from a number in
[-5.5426, -5.4896] on, which differs between its vector and scalar code."""


class KeepSigns(Rewrite):
    """Replace each GELU of which only signs are wanted by a comparison.

    GELU(x) is below zero where x is, down to :data:`SATURATED`; there it is zero, whose sign is +1. So before
    binary linear layers without a shift, ``ThresholdedRelu`` with that number gives the same bits.
    """

    def rewrite(self, graph: ir.Graph) -> bool:
        for node in list(graph):
            if node.op_type == 'Erf' and node.domain == '':
                _shorten(graph, node)
        return True


def _shorten(graph: ir.Graph, erf: ir.Node) -> None:
    """Replace the GELU around an Erf, x * (erf(x / sqrt(2)) + 1) * 0.5, if it is one and may go."""
    divided = erf.inputs[0].producer() if erf.inputs[0] is not None else None
    if divided is None or divided.op_type != 'Div' or not _is(divided.inputs[1], 2**0.5):
        return
    x = divided.inputs[0]
    added = _reader(erf)
    if added is None or added.op_type != 'Add' or not any(_is(value, 1.0) for value in added.inputs):
        return
    first = _reader(added)
    second = _reader(first) if first is not None else None
    if first is None or second is None or not first.op_type == second.op_type == 'Mul':
        return
    inner = (*added.outputs, *first.outputs)
    others = [value for node in (first, second) for value in node.inputs if value not in inner]
    if len(others) != 2 or not any(value is x for value in others) or not any(_is(value, 0.5) for value in others):
        return
    y = second.outputs[0]
    if y.is_graph_output() or not all(_takes_sign(node, index) for node, index in y.uses()):
        return
    relu = ir.node('ThresholdedRelu', [x], {'alpha': SATURATED})
    graph.insert_before(second, relu)
    relu.outputs[0].name, relu.outputs[0].shape, relu.outputs[0].type = f'{y.name}_signs', y.shape, y.type
    y.replace_all_uses_with(relu.outputs[0])
    graph.remove([second, first, added, erf, divided], safe=True)


def _reader(node: ir.Node) -> ir.Node | None:
    use = only_use(node.outputs[0])
    return None if use is None else use[0]


def _takes_sign(node: ir.Node, index: int) -> bool:
    """Whether a node takes only the sign of an input."""
    if node.domain != DOMAIN or node.op_type != 'BinaryLinear' or index != 0:
        return False
    shift = constant_array(node.inputs[2])
    return shift is not None and not shift.any()


def _is(value: ir.Value | None, number: float) -> bool:
    array = constant_array(value)
    return array is not None and array.size == 1 and bool(np.isclose(array, number, rtol=1e-6).all())
