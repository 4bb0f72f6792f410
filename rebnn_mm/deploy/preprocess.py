"""The steps from an 8-bit image to the tensor that a packed model takes, as its metadata says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .errors import ImageError, ModelFileError
from .image import Image, as_image, resize_bilinear
from .json_value import parse_json

MAX_PIXELS = 1 << 25
"""Most pixels of a prepared image, 33 million. The first layer of a network would need gigabytes beyond it."""

RESIZE_MODES = ('keep_ratio', 'exact', 'short_edge')


class Prepared(NamedTuple):
    """An image as the network takes it.

    Attributes:
        image: float32 [1, 3, H, W].
        valid_size: height and width without the padding.
        scale: how many times wider and higher than the original.
        offset: x and y in the resized image of the first pixel that was kept.
    """

    image: np.ndarray
    valid_size: tuple[int, int]
    scale: tuple[float, float]
    offset: tuple[int, int]

    def to_original(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes [K, 4] (x1, y1, x2, y2) in pixels of ``image`` as float32 in pixels of the original."""
        factor = np.array([1 / self.scale[0], 1 / self.scale[1]] * 2, np.float32)
        return (boxes + np.array(self.offset * 2, np.float32)) * factor


@dataclass(frozen=True)
class Preprocess:
    """Steps in their order: resize, crop, order of channels, normalise, pad. ``None`` is a step that is left out.

    Attributes:
        channels: 'rgb' or 'bgr', what the network wants.
        resize: mode, and width and height (for 'short_edge' twice the length of the edge).
        crop: width and height, from the centre; a smaller image is kept as it is along that axis.
        mean: per channel, float32; x becomes (x - mean) / std.
        std: per channel, float32.
        pad: divisor of height and width, and the value that fills up.

    Example:
        >>> text = '{"channels": "rgb", "resize": {"mode": "short_edge", "size": 4}, "crop": [3, 3]}'
        >>> Preprocess.parse(text)(np.zeros((10, 8, 3), np.uint8)).image.shape
        (1, 3, 3, 3)
    """

    channels: str
    resize: tuple[str, int, int] | None = None
    crop: tuple[int, int] | None = None
    mean: np.ndarray | None = None
    std: np.ndarray | None = None
    pad: tuple[int, float] | None = None

    @classmethod
    def parse(cls, text: str) -> Preprocess:
        """Read the JSON object of the metadata key ``rebnn.preprocess`` (docs/format.md).

        Raises:
            ModelFileError: it is not such an object, or has a step that is not known here.
        """
        steps = parse_json(text, dict, 'rebnn.preprocess')
        unknown = sorted(steps.keys() - {'resize', 'crop', 'channels', 'mean', 'std', 'pad'})
        if unknown:
            raise ModelFileError(f'rebnn.preprocess has the step {unknown[0]!r}, which this version does not know')
        if steps.get('channels') not in ('rgb', 'bgr'):
            raise ModelFileError(f"channels in rebnn.preprocess must be 'rgb' or 'bgr', not {steps.get('channels')!r}")
        if ('mean' in steps) != ('std' in steps):
            raise ModelFileError('rebnn.preprocess must have mean and std, or neither')
        resize = _object(steps, 'resize', {'mode', 'size'})
        pad = _object(steps, 'pad', {'divisor', 'value'})
        std = _per_channel(steps, 'std')
        if std is not None and not std.all():
            raise ModelFileError('std in rebnn.preprocess must not be 0')
        return cls(
            channels=steps['channels'],
            resize=None if resize is None else _resize(resize),
            crop=_pair(steps['crop'], 'crop') if 'crop' in steps else None,
            mean=_per_channel(steps, 'mean'),
            std=std,
            pad=None if pad is None else (_positive(pad['divisor'], 'pad'), _number(pad['value'], 'pad')),
        )

    def __call__(self, image: Image) -> Prepared:
        """Prepare one image.

        Args:
            image: in any form of :func:`rebnn_mm.deploy.image.as_image`.

        Raises:
            ImageError: it is no image, or has a size that the steps turn into 0 or more than ``MAX_PIXELS``.
        """
        image = as_image(image)
        height, width = image.shape[:2]
        new_width, new_height = self._resized(width, height)
        kept_width, kept_height = new_width, new_height
        if self.crop is not None:
            kept_width, kept_height = min(self.crop[0], new_width), min(self.crop[1], new_height)
        divisor, fill = self.pad or (1, 0.0)
        full_width, full_height = (math.ceil(edge / divisor) * divisor for edge in (kept_width, kept_height))
        if min(new_width, new_height) < 1 or max(new_width * new_height, full_width * full_height) > MAX_PIXELS:
            raise ImageError(
                f'an image of {width} x {height} pixels would become {new_width} x {new_height} in this model, which '
                f'takes 1 to {MAX_PIXELS} pixels; crop the image first'
            )

        # mmcv rounds halves to even here
        x, y = round((new_width - kept_width) / 2), round((new_height - kept_height) / 2)
        resized = resize_bilinear(image, (new_width, new_height))[y : y + kept_height, x : x + kept_width]
        planes = (resized if self.channels == 'rgb' else resized[..., ::-1]).transpose(2, 0, 1).astype(np.float32)
        if self.mean is not None and self.std is not None:
            planes -= self.mean[:, None, None]
            planes /= self.std[:, None, None]
        tensor = np.full((1, 3, full_height, full_width), fill, np.float32)
        tensor[0, :, :kept_height, :kept_width] = planes
        return Prepared(tensor, (kept_height, kept_width), (new_width / width, new_height / height), (x, y))

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        if self.resize is None:
            return width, height
        mode, first, second = self.resize
        if mode == 'exact':
            return first, second
        if mode == 'short_edge':
            return (first, int(first * height / width)) if width < height else (int(first * width / height), first)
        factor = min(max(first, second) / max(width, height), min(first, second) / min(width, height))
        return int(width * factor + 0.5), int(height * factor + 0.5)


def _object(steps: Mapping[str, Any], key: str, names: set[str]) -> dict[str, Any] | None:
    if key not in steps:
        return None
    value = steps[key]
    if not isinstance(value, dict) or value.keys() != names:
        raise ModelFileError(
            f'{key} in rebnn.preprocess must have {" and ".join(sorted(names))}, not {str(value)[:60]}'
        )
    return value


def _resize(value: Mapping[str, Any]) -> tuple[str, int, int]:
    mode, size = value['mode'], value['size']
    if mode not in RESIZE_MODES:
        raise ModelFileError(f'resize in rebnn.preprocess has the mode {str(mode)[:60]!r}, not one of {RESIZE_MODES}')
    width, height = _pair([size, size] if mode == 'short_edge' else size, 'resize')
    return mode, width, height


def _pair(value: Any, key: str) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ModelFileError(f'{key} in rebnn.preprocess must be a width and a height, not {str(value)[:60]}')
    return _positive(value[0], key), _positive(value[1], key)


def _positive(value: Any, key: str) -> int:
    if type(value) is not int or not 0 < value <= MAX_PIXELS:
        raise ModelFileError(f'{key} in rebnn.preprocess must be in whole numbers from 1 on, not {str(value)[:60]}')
    return value


def _number(value: Any, key: str) -> float:
    if type(value) not in (int, float) or not abs(value) < float(np.finfo(np.float32).max):
        raise ModelFileError(f'{key} in rebnn.preprocess must be in float32 numbers, not {str(value)[:60]}')
    return float(value)


def _per_channel(steps: Mapping[str, Any], key: str) -> np.ndarray | None:
    if key not in steps:
        return None
    value = steps[key]
    if not isinstance(value, list) or len(value) != 3:
        raise ModelFileError(f'{key} in rebnn.preprocess must be three numbers, not {str(value)[:60]}')
    return np.array([_number(entry, key) for entry in value], np.float32)
