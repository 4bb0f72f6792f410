"""What loaded models have in common, session, errors and preparation of images; and the model without a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from .errors import ModelFileError, first_sentence
from .image import Image
from .metadata import Metadata
from .preprocess import Prepared


class LoadedModel:
    """A packed model that is ready to run. Several threads may call it at the same time.

    Attributes:
        name: the file it was loaded from, as given.
        metadata: what the file says about itself.
        session: the ONNX Runtime session.
    """

    input_types: Mapping[str, str] = {'image': 'tensor(float)', 'valid_size': 'tensor(int64)'}
    inputs: tuple[str, ...] = ('image',)
    outputs: tuple[str, ...] = ()

    def __init__(self, name: str, metadata: Metadata, session: onnxruntime.InferenceSession) -> None:
        self.name = name
        self.metadata = metadata
        self.session = session
        self._check_interface()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, by label; none if the file does not know them."""
        return self.metadata.classes

    def class_name(self, label: int) -> str:
        """The name of a class; its number if the file does not know names."""
        return self.classes[label] if self.classes else str(label)

    def wrong(self, what: str) -> ModelFileError:
        """The error that names this model's file."""
        return ModelFileError(f'{self.name}: {what}')

    def _check_interface(self) -> None:
        inputs = {entry.name: entry.type for entry in self.session.get_inputs()}
        expected = {name: self.input_types[name] for name in self.inputs}
        if inputs != expected:
            raise self.wrong(f'a {self.metadata.task} model has the inputs {expected}, this one {inputs}')
        names = {entry.name for entry in self.session.get_outputs()}
        missing = [name for name in self.outputs if name not in names]
        if missing:
            raise self.wrong(f'it has no output {missing[0]!r}')


class PackedModel(LoadedModel, ABC):
    """A packed model that takes images."""

    @abstractmethod
    def __call__(self, image: Image) -> Any:
        """Run the model on one image."""

    def prepare(self, image: Image) -> Prepared:
        """The tensor that the network gets for an image.

        Raises:
            ImageError: the image cannot be read or does not suit the model.
        """
        assert self.metadata.preprocess is not None
        return self.metadata.preprocess(image)

    def run(self, prepared: Prepared) -> list[np.ndarray]:
        """The graph's outputs, in the order of ``outputs``.

        Raises:
            ModelFileError: ONNX Runtime cannot run the graph on this image.
        """
        feed: dict[str, np.ndarray] = {'image': prepared.image}
        if 'valid_size' in self.inputs:
            feed['valid_size'] = np.array(prepared.valid_size, np.int64)
        try:
            return self.session.run(list(self.outputs), feed)
        except Exception as error:  # its classes have no common base below Exception
            height, width = prepared.image.shape[2:]
            raise self.wrong(
                f'ONNX Runtime stops at an input of {width} x {height} ({first_sentence(error)})'
            ) from None


class RawModel(PackedModel):
    """Gives what the model's head gives.

    Example::

        model = load('segmenter.onnx')
        for name, output in model('street.jpg').items():
            print(name, output.shape)
    """

    def __init__(self, name: str, metadata: Metadata, session: onnxruntime.InferenceSession) -> None:
        self.outputs = metadata.outputs
        super().__init__(name, metadata, session)

    def __call__(self, image: Image) -> dict[str, np.ndarray]:
        """The graph's outputs by name.

        Args:
            image: an image in any form of :func:`rebnn_mm.deploy.image.as_image`.

        Raises:
            DeployError: the image or the file is not as it should be.
        """
        return dict(zip(self.outputs, self.run(self.prepare(image)), strict=True))
