"""Takes what corrects a binary convolution after the norm and the shortcut that follow, so that they can be fused."""

import onnx_ir as ir
from onnx_ir.convenience import replace_nodes_and_values

from ..operators import DOMAIN
from ..rewriting import BLOCKS, Rewrite, constant_array, constant_per_channel, demand, only_use


class SpreadNorms(Rewrite):
    r"""Apply a norm to a binary convolution and to its correction each, and add the shortcut to the correction.

    .. math:: ((p + c) \cdot m + a) + r = (p \cdot m + a) + (c \cdot m + r)

    p is a ``BinaryConv`` and c the real convolution that its second values add
    (:mod:`rebnn_mm.export.two_valued`), which :class:`rebnn_mm.export.passes.FoldNorms` then gives the factor. Real
    sums are rounded differently from before; other binary convolutions are left alone.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from rebnn_mm.export import pack, apply_passes, trace
        >>> from rebnn_mm.layers import BinaryConv2d
        >>> conv = BinaryConv2d(8, 8, 3, weight='AdaBinWeight', activation='AdaBinActivation', bias=False)
        >>> model = trace(pack(nn.Sequential(conv, nn.BatchNorm2d(8))).model, {'x': torch.ones(1, 8, 4, 4)}, ['y'])
        >>> [node.op_type for node in model.graph.node]
        ['BinaryConv', 'BinaryConv', 'Conv', 'Add', 'Mul', 'Add']
        >>> [node.op_type for node in apply_passes(model, SpreadNorms()).graph.node]
        ['BinaryConv', 'BinaryConv', 'Conv', 'Mul', 'Mul', 'Add', 'Add']
    """

    def requires(self, model: ir.Model) -> None:
        demand(all(node.op_type not in BLOCKS for node in model.graph), 'a block has taken its norm in already.')

    def rewrite(self, graph: ir.Graph) -> bool:
        done = [_spread(graph, node) for node in list(graph) if node.op_type == 'Add' and node.domain == '']
        return any(done)


def _spread(graph: ir.Graph, add: ir.Node) -> bool:
    product, correction = add.inputs
    if product is None or correction is None or not _corrects(correction, product):
        return False
    channels = product.shape[1] if product.shape is not None else None
    if not isinstance(channels, int):
        return False
    end = add.outputs[0]
    taken = [add]
    for kind in ('Mul', 'Add', 'shortcut'):
        use = only_use(end)
        if use is None or use[0].domain != '' or use[0].op_type != ('Mul' if kind == 'Mul' else 'Add'):
            continue
        node, index = use
        other = node.inputs[1 - index]
        if other is None or (constant_per_channel(other, channels) is None) != (kind == 'shortcut'):
            continue
        if kind == 'shortcut' and (
            constant_array(other) is not None
            or other.shape is None
            or end.shape is None
            or len(other.shape) != len(end.shape)
        ):
            continue
        if kind != 'shortcut':
            product = _insert(graph, node, kind, product, other)
        if kind != 'Add':
            correction = _insert(graph, node, 'Mul' if kind == 'Mul' else 'Add', correction, other)
        taken.append(node)
        end = node.outputs[0]
    joined = ir.node('Add', [product, correction])
    replace_nodes_and_values(graph, taken[-1], taken, [joined], [end], joined.outputs)
    return len(taken) > 1


def _insert(graph: ir.Graph, before: ir.Node, kind: str, value: ir.Value, other: ir.Value) -> ir.Value:
    node = ir.node(kind, [value, other])
    graph.insert_before(before, node)
    result = node.outputs[0]
    result.shape, result.type = value.shape, value.type
    return result


def _corrects(correction: ir.Value, product: ir.Value) -> bool:
    """Whether a value is a real convolution of what a binary one of the same input gives as another one's sums."""
    conv, binary = correction.producer(), product.producer()
    if conv is None or binary is None or conv.op_type != 'Conv' or binary.op_type != 'BinaryConv':
        return False
    if only_use(correction) is None or only_use(product) is None or conv.inputs[0] is None:
        return False
    sums = conv.inputs[0].producer()
    while sums is not None and sums.op_type == 'Pad' and sums.inputs[0] is not None:
        sums = sums.inputs[0].producer()
    return (
        sums is not None
        and sums.domain == DOMAIN
        and sums.op_type == 'BinaryConv'
        and sums.inputs[0] is binary.inputs[0]
    )
