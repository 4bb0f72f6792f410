"""Opens an ONNX Runtime session in which our kernels or the functions of the file compute the operators."""

import onnxruntime
from onnx import ModelProto

from rebnn_mm.deploy import native


def open_session(model: ModelProto, run: str = 'kernel', threads: int = 1) -> onnxruntime.InferenceSession:
    """Open a session on the CPU; ``run`` says who computes our operators, 'kernel' or 'function'."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    if run == 'kernel':
        native.register(options)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
