"""Packed classifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from .image import Image
from .model import ImageModel, LoadedModel
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


def rank_labels(model: LoadedModel, scores: np.ndarray, top: int) -> list[Label]:
    """The ``top`` classes of the highest scores, the highest first; of equal ones that with the lower number."""
    order = np.argsort(-scores, kind='stable')[: max(top, 0)]
    return [Label(number, model.class_name(number), float(scores[number])) for number in order.tolist()]


class Classifier(ImageModel):
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
        return self._predict(image, top=top)

    @property
    def gives_size(self) -> bool:
        """Whether the steps bring photos of any size to that of the training."""
        steps = self.metadata.preprocess
        return steps is not None and (steps.resize is not None or steps.crop is not None)

    def resize_to(self, size: tuple[int, int] | None) -> None:
        """Resize images to a width and a height, or to those that the graph takes where it takes no others."""
        width, height = size or self.session.get_inputs()[0].shape[:1:-1] or (None, None)
        if isinstance(width, int) and isinstance(height, int):
            assert self.metadata.preprocess is not None
            steps = replace(self.metadata.preprocess, resize=('exact', width, height))
            self.metadata = replace(self.metadata, preprocess=steps)

    def prepare(self, image: Image) -> Prepared:
        """The tensor that the network gets for an image.

        Raises:
            ImageError: the image cannot be read or does not suit the model.
            ModelFileError: nobody says how large the images were that the model was trained on. As they are, photos
                would get an answer that looks certain and means nothing.
        """
        if not self.gives_size:
            raise self.wrong(
                'it does not say how large the images were that it was trained on; load it with size=(width, height), '
                'in rebnn run --size WIDTH HEIGHT, or export it again with a resize in its test pipeline or --shape'
            )
        return super().prepare(image)

    def _result(self, prepared: Prepared, outputs: list[np.ndarray], top: int = 5) -> list[Label]:
        return rank_labels(self, self.check_numbers(outputs[0], 1)[0], top)

    def scores(self, image: Image) -> np.ndarray:
        """The probability of every class, float32 [classes].

        Args:
            image: as above.
        """
        return self.check_numbers(self.run(self.prepare(image))[0], 1)[0]
