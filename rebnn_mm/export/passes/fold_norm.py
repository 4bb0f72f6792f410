"""Takes the constants of a batch norm into the full-precision convolution before it."""

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.convenience import replace_nodes_and_values

from ..rewriting import Rewrite, constant, constant_array, constant_per_channel, only_use


class FoldNorms(Rewrite):
    r"""Turn ``Conv``, ``Mul`` and ``Add`` with constants per channel into one ``Conv``.

    .. math:: (x * w) \cdot m_c + a_c = x * (w \cdot m_c) + a_c

    The two sides round differently, as PyTorch's convolution and batch norm do: a full-precision convolution has no
    fixed order of sums. Binary convolutions are left alone.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from rebnn_mm.export import pack, apply_passes, trace
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8))
        >>> model = trace(pack(net).model, {'x': torch.zeros(2, 3, 4, 4)}, ['y'])
        >>> folded = apply_passes(model, FoldNorms())
        >>> [node.op_type for node in model.graph.node], [node.op_type for node in folded.graph.node]
        (['Conv', 'Mul', 'Add'], ['Conv'])
    """

    def rewrite(self, graph: ir.Graph) -> bool:
        made: dict[tuple[str, ...], list[ir.Value]] = {}
        for node in list(graph):
            if node.op_type == 'Conv' and node.domain == '':
                _fold(graph, node, made)
        return True


def _fold(graph: ir.Graph, conv: ir.Node, made: dict[tuple[str, ...], list[ir.Value]]) -> None:
    operands = [value for value in conv.inputs[1:] if value is not None]
    arrays = [array for value in operands if (array := constant_array(value)) is not None]
    if len(arrays) < len(operands) or arrays[0].ndim != 4:
        return
    weight = arrays[0]
    factor: NDArray = np.ones(len(weight))
    summand: NDArray = arrays[1].astype(float) if len(arrays) > 1 else np.zeros(len(weight))
    names, followers = [str(value.name) for value in operands], []
    value, end = conv.outputs[0], None
    for op_type in ('Mul', 'Add'):
        use = only_use(value)
        if use is None or use[0].op_type != op_type or use[0].domain != '':
            continue
        node, index = use
        operand = node.inputs[1 - index]
        vector = constant_per_channel(operand, len(weight))
        if operand is None or vector is None:
            continue
        if op_type == 'Mul':
            factor = vector.astype(float)
            summand = summand * factor
        else:
            summand = summand + vector.astype(float)
        names += [op_type, str(operand.name)]
        followers.append(node)
        value = end = node.outputs[0]
    if end is None:
        return
    # Levels of a detector share their convolution, and the folded weights then.
    key = tuple(names)
    if key not in made:
        new = {'folded': weight * factor[:, None, None, None], 'bias': summand}
        number = len(made) or ''
        made[key] = [
            constant(graph, array.astype(np.float32), f'{names[0]}.{kind}{number}') for kind, array in new.items()
        ]
    folded = ir.node('Conv', [conv.inputs[0], *made[key]], dict(conv.attributes), name=conv.name)
    replace_nodes_and_values(graph, conv, [conv, *followers], [folded], [end], folded.outputs)
