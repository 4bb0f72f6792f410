"""Real constants in half precision, arithmetic in single precision."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper


def to_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Store every float32 initializer as float16, followed by a ``Cast`` to float32.

    Packed bits and integers stay. Values beyond float16's largest become that one, and those below its smallest, 0.

    Args:
        model: it is not changed.

    Example:
        >>> weight = numpy_helper.from_array(np.array([0.1], np.float32), 'w')
        >>> graph = onnx.helper.make_graph([onnx.helper.make_node('Neg', ['w'], ['y'])], 'g', [], [], [weight])
        >>> half = to_half(onnx.helper.make_model(graph))
        >>> [node.op_type for node in half.graph.node], numpy_helper.to_array(half.graph.initializer[0])
        (['Cast', 'Neg'], array([0.1], dtype=float16))
    """
    half = onnx.ModelProto()
    half.CopyFrom(model)
    largest = float(np.finfo(np.float16).max)
    casts = []
    for tensor in half.graph.initializer:
        if tensor.data_type != TensorProto.FLOAT:
            continue
        name = tensor.name
        values = np.clip(numpy_helper.to_array(tensor), -largest, largest).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(values, f'{name}.half'))
        casts.append(onnx.helper.make_node('Cast', [tensor.name], [name], name=f'{name}.cast', to=TensorProto.FLOAT))
    nodes = [*casts, *half.graph.node]
    del half.graph.node[:]
    half.graph.node.extend(nodes)
    return half
