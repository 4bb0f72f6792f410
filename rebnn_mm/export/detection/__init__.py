"""Detectors as ONNX graphs: boxes, scores and labels as outputs, or else what their heads give."""

from .traced_parts import raw_graph
from .whole_graph import detector_graph, explain_unsupported

__all__ = ['detector_graph', 'explain_unsupported', 'raw_graph']
