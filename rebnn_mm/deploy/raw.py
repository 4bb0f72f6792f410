"""Packed models whose outputs nobody here knows how to read."""

from __future__ import annotations

import numpy as np
import onnxruntime

from .metadata import Metadata
from .model import Image, PackedModel


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
            image: uint8 [H, W, 3] in the order RGB, or the path of an image file.

        Raises:
            DeployError: the image or the file is not as it should be.
        """
        return dict(zip(self.outputs, self.run(self.prepare(image)), strict=True))
