"""Real weights in half precision, arithmetic in single precision."""

import math

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ..operators import stored_inputs

SMALL = 16384
"""A constant of so many values or fewer stays: it costs little, and in front of a sign every rounding counts."""


def to_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store large float32 initializers as float16, each followed by a ``Cast`` to float32.

    Packed bits, integers and small constants (norms, scaling factors, a first layer) stay. Values beyond float16's
    largest become that one.

    Args:
        model: it is not changed.

    Example:
        >>> weight = numpy_helper.from_array(np.full(SMALL + 1, 0.1, np.float32), 'w')
        >>> graph = onnx.helper.make_graph([onnx.helper.make_node('Neg', ['w'], ['y'])], 'g', [], [], [weight])
        >>> half = to_half(onnx.helper.make_model(graph))
        >>> [node.op_type for node in half.graph.node], numpy_helper.to_array(half.graph.initializer[0]).dtype
        (['Cast', 'Neg'], dtype('float16'))
    """
    half = onnx.ModelProto()
    half.CopyFrom(model)
    largest = float(np.finfo(np.float16).max)
    casts = []
    kept = stored_inputs(half.graph)
    for tensor in half.graph.initializer:
        name = tensor.name
        if tensor.data_type != TensorProto.FLOAT or math.prod(tensor.dims) <= SMALL or name in kept:
            continue
        values = np.clip(numpy_helper.to_array(tensor), -largest, largest).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(values, f'{name}.half'))
        casts.append(onnx.helper.make_node('Cast', [tensor.name], [name], name=f'{name}.cast', to=TensorProto.FLOAT))
    nodes = [*casts, *half.graph.node]
    del half.graph.node[:]
    half.graph.node.extend(nodes)
    return half
