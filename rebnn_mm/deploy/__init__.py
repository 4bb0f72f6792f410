"""Packed models on boards and PCs: needs NumPy and ONNX Runtime, no torch and no mm packages.

from rebnn_mm.deploy import load

model = load('model.onnx', threads=2)
model('image.jpg')
"""

from .classifier import Classifier, Label
from .detections import Detection, Detections
from .detector import Detector
from .errors import DeployError, ImageError, ModelFileError, TextError
from .loading import load
from .model import RawModel
from .text_classifier import TextClassifier

__all__ = [
    'Classifier',
    'DeployError',
    'Detection',
    'Detections',
    'Detector',
    'ImageError',
    'Label',
    'ModelFileError',
    'RawModel',
    'TextClassifier',
    'TextError',
    'load',
]
