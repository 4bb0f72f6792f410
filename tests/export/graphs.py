"""Graphs of one operator, and graphs run in ONNX Runtime without our library."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from rebnn_mm.export import DOMAIN, OPSET, attach_functions
from rebnn_mm.export.operators import IR_VERSION

Array = NDArray[Any]
TYPES = {np.dtype(np.float32): onnx.TensorProto.FLOAT, np.dtype(np.uint8): onnx.TensorProto.UINT8}


def one_node(
    operator: str,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    outputs: Mapping[str, int],
    options: Mapping[str, Any],
    order: str,
) -> onnx.ModelProto:
    """A model of one operator; ``outputs`` has the type of each, ``order`` the names of the node's inputs."""
    rank = next(iter(inputs.values())).ndim
    node = helper.make_node(operator, order.split(), list(outputs), domain=DOMAIN, name='layer', **options)
    graph = helper.make_graph(
        [node],
        'test',
        [helper.make_tensor_value_info(name, TYPES[x.dtype], [None] * x.ndim) for name, x in inputs.items()],
        [helper.make_tensor_value_info(name, kind, [None] * rank) for name, kind in outputs.items() if name],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', OPSET)], ir_version=IR_VERSION)
    return attach_functions(model)


def run(model: onnx.ModelProto, feeds: Mapping[str, Array], optimised: bool = True) -> list[Array]:
    """The outputs in ONNX Runtime as it comes, with all its optimisations or with none."""
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
    return session.run(None, dict(feeds))


def parsed(text: str) -> onnx.ModelProto:
    """A model from the text of its graph, with the functions of our operators."""
    model = onnx.parser.parse_model(f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}, "rebnn" : 1]>\n{text}')
    return attach_functions(model)
