"""Where the header of ONNX Runtime may be."""

PLACES = ['/usr/include/onnxruntime', '/usr/local/include/onnxruntime', '/usr/local/include']
