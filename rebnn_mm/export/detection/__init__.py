"""Detectors as ONNX graphs: boxes, scores and labels as outputs, or else what their heads give.

:func:`detector_graph` takes the detectors for which :func:`explain_unsupported` has nothing to say,
:func:`raw_graph` any model.
"""

from .traced_parts import raw_graph
from .whole_graph import detector_graph, explain_unsupported

__all__ = ['detector_graph', 'explain_unsupported', 'raw_graph']
