"""Detectors as ONNX graphs: boxes, scores and labels as outputs, or else what their heads give.

:func:`detector_graph` takes the detectors for which :func:`unsupported` has nothing to say, :func:`raw_graph` any
model.
"""

from .detector import detector_graph
from .stages import raw_graph, unsupported

__all__ = ['detector_graph', 'raw_graph', 'unsupported']
