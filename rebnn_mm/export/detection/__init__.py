"""Detectors as ONNX graphs: boxes, scores and labels as outputs, or else what their heads give.

:func:`detector_graph` takes the detectors for which :func:`unsupported` has nothing to say, :func:`raw_graph` any
model. :func:`agreement` compares what a graph finds with what the model finds.
"""

from .agreement import Agreement, agreement
from .detector import detector_graph
from .raw import raw_graph
from .stages import unsupported

__all__ = ['Agreement', 'agreement', 'detector_graph', 'raw_graph', 'unsupported']
