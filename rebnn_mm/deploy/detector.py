"""Packed detectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from .image import Image
from .model import PackedModel
from .preprocess import Prepared


@dataclass(frozen=True)
class Detections:
    """The objects found in one image, the highest score first.

    Attributes:
        boxes: float32 [K, 4], x1, y1, x2, y2 in pixels of the original image.
        scores: float32 [K].
        labels: int64 [K].
        classes: names of all classes, by label; empty if the file does not know them.

    Example:
        >>> boxes = np.array([[0, 0, 9, 9], [5, 5, 8, 8]], np.float32)
        >>> found = Detections(boxes, np.array([0.9, 0.2], np.float32), np.array([1, 0]), ('cat', 'dog'))
        >>> found.at_least(0.5).names
        ['dog']
    """

    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def names(self) -> list[str]:
        """The class name of each object."""
        return [self.classes[label] if self.classes else str(label) for label in self.labels.tolist()]

    def at_least(self, score: float) -> Detections:
        """Return the detections with at least this score."""
        kept = self.scores >= score
        return Detections(self.boxes[kept], self.scores[kept], self.labels[kept], self.classes)


class Detector(PackedModel):
    """Finds the objects of an image.

    Example::

        found = load('faster_rcnn.onnx')('street.jpg').at_least(0.3)
        for name, score, box in zip(found.names, found.scores, found.boxes):
            print(name, score, box)
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
        return self._called(image)

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
