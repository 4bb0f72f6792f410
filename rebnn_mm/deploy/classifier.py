"""Packed classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from .image import Image
from .model import PackedModel
from .preprocess import Prepared


@dataclass(frozen=True)
class Label:
    """One class that an image may show: its number, its name and its probability.

    Example:
        >>> Label(3, 'cat', 0.91)
        Label(number=3, name='cat', score=0.91)
    """

    number: int
    name: str
    score: float


class Classifier(PackedModel):
    """Gives the likeliest classes of an image.

    Example::

        model = load('resnet18.onnx')
        model('cat.jpg', top=2)     # [Label(number=3, name='cat', score=0.91), ...]
        model(['cat.jpg', 'dog.jpg'])     # a list of such lists
    """

    outputs = ('scores',)

    @overload
    def __call__(self, image: Image, top: int = 5) -> list[Label]: ...
    @overload
    def __call__(self, image: list[Any] | tuple[Any, ...], top: int = 5) -> list[list[Label]]: ...
    def __call__(self, image: Any, top: int = 5) -> Any:
        """The ``top`` classes of the highest probability, the highest first; of equal ones that with the lower number.

        Args:
            image: a path, bytes, an image of Pillow or an array (:func:`rebnn_mm.deploy.image.as_image`); or a list of
                such, which go through the network together, for a list of results.
            top: how many; all if there are fewer.

        Raises:
            DeployError: the image or the file is not as it should be.
        """
        return self._called(image, top=top)

    def _result(self, prepared: Prepared, outputs: list[np.ndarray], top: int = 5) -> list[Label]:
        scores = self._checked(outputs)
        order = np.argsort(-scores, kind='stable')[: max(top, 0)]
        return [Label(number, self.class_name(number), float(scores[number])) for number in order.tolist()]

    def scores(self, image: Image) -> np.ndarray:
        """The probability of every class, float32 [classes].

        Args:
            image: as above.
        """
        return self._checked(self.run(self.prepare(image)))

    def _checked(self, outputs: list[np.ndarray]) -> np.ndarray:
        (scores,) = outputs
        number = len(self.classes) or scores.shape[-1]
        if scores.shape != (1, number) or scores.dtype != np.float32:
            raise self.wrong(f'it gives {scores.dtype} {list(scores.shape)} as the scores of {number} classes')
        if not np.isfinite(scores).all():
            raise self.wrong('it gives scores that are not finite numbers')
        return scores[0]
