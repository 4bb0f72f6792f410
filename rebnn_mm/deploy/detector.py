"""Packed detectors."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from .detections import Detections
from .image import Image
from .model import ImageModel
from .preprocess import Prepared


class Detector(ImageModel):
    """Finds the objects of an image.

    Example::

        found = load('faster_rcnn.onnx')('street.jpg').at_least(0.3)
        for one in found:
            print(one.name, one.score, one.box)
    """

    inputs = ('image', 'valid_size')
    outputs = ('boxes', 'scores', 'labels')

    @overload
    def __call__(self, image: Image) -> Detections: ...
    @overload
    def __call__(self, image: list[Any] | tuple[Any, ...]) -> list[Detections]: ...
    def __call__(self, image: Any) -> Any:
        """All objects that the model finds, down to the score threshold it was exported with.

        Args:
            image: a path, bytes, an image of Pillow or an array (:func:`rebnn_mm.deploy.image.as_image`); or a list of
                such, for a list of results.

        Raises:
            DeployError: the image or the file is not as it should be.
        """
        return self._predict(image)

    def _result(self, prepared: Prepared, outputs: list[np.ndarray]) -> Detections:
        boxes, scores, labels = outputs
        number = len(scores) if scores.ndim == 1 else -1
        if boxes.shape != (number, 4) or labels.shape != (number,):
            shapes = [list(output.shape) for output in (boxes, scores, labels)]
            raise self.wrong(f'its boxes, scores and labels have the shapes {shapes}, not [K, 4], [K] and [K]')
        if (boxes.dtype, scores.dtype, labels.dtype) != (np.float32, np.float32, np.int64):
            raise self.wrong('its boxes, scores and labels must be of float32, float32 and int64')
        if number and (labels.min() < 0 or (self.classes and labels.max() >= len(self.classes))):
            raise self.wrong(f'it gives labels beyond its {len(self.classes)} classes')
        if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
            raise self.wrong('it gives boxes or scores that are not finite numbers')
        return Detections(prepared.to_original(boxes), scores, labels, self.classes)
