"""Detectors as ONNX graphs: boxes, scores and labels as outputs, or else what their heads give."""

from .whole_graph import explain_unsupported
