"""Examples on which a model and its file are compared: images and texts, as the network takes them."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx

from rebnn_mm.deploy.preprocess import Preprocess

from ..errors import RebnnError

RANDOM_IMAGES = 2
"""How many images of noise a file is verified on if none are given."""


class Image(NamedTuple):
    """An image."""

    values: np.ndarray  # float32 (1, C, H, W), normalised and padded
    valid_size: tuple[int, int]  # height and width without the padding


class Text(NamedTuple):
    """Texts."""

    # int64 (N, L) each: ``input_ids``, ``attention_mask`` and, where the encoder has them, ``token_type_ids``
    inputs: Mapping[str, np.ndarray]


Example = Image | Text


def feeds_of(model: onnx.ModelProto, example: Example) -> dict[str, np.ndarray]:
    """The inputs of a graph for an example."""
    if isinstance(example, Text):
        return dict(example.inputs)
    if not isinstance(example, Image):
        raise RebnnError(f'an example is a {type(example).__name__}; make one of an image by prepare_example.')
    feeds = {'image': example.values, 'valid_size': np.array(example.valid_size, np.int64)}
    return {value.name: feeds[value.name] for value in model.graph.input}


def prepare_example(preprocess: Mapping[str, Any], image: np.ndarray) -> Image:
    """Prepare an image (H, W, 3) of 8 bits in the order RGB as the network takes it."""
    found = Preprocess.parse(json.dumps(dict(preprocess)))(image)
    return Image(found.image, found.valid_size)


def noise(preprocess: Mapping[str, Any], size: tuple[int, int], channels: int = 3) -> list[Image]:
    """Images of random pixels that went through the steps before the network, always the same ones."""
    rng = np.random.default_rng(0)
    if channels != 3:
        values = rng.normal(size=(RANDOM_IMAGES, 1, channels, *size)).astype(np.float32)
        return [Image(value, size) for value in values]
    pixels = rng.integers(0, 256, (RANDOM_IMAGES, *size, 3), np.uint8)
    return [prepare_example(preprocess, image) for image in pixels]
