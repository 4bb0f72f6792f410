"""The steps from an 8-bit image to the tensor that a packed model takes, as its metadata says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .errors import ImageError, ModelFileError, parse_json
from .image import Image, as_image, resize_bilinear
from .prepare import Steps, prepare_image

MAX_PIXELS = 1 << 25
"""Most pixels of a prepared image, 33 million. The first layer of a network would need gigabytes beyond it."""

RESIZE_MODES = ('keep_ratio', 'exact', 'short_edge')


class Prepared(NamedTuple):
    """An image as the network takes it."""

    image: np.ndarray  # float32 [1, 3, H, W]
    valid_size: tuple[int, int]  # height and width without the padding
    scale: tuple[float, float]  # how many times wider and higher than the original
    offset: tuple[int, int]  # x and y in the resized image of the first pixel that was kept

    def to_original(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes [K, 4] (x1, y1, x2, y2) in pixels of ``image`` as float32 in pixels of the original."""
        factor = np.array([1 / self.scale[0], 1 / self.scale[1]] * 2, np.float32)
        return (boxes + np.array(self.offset * 2, np.float32)) * factor


@dataclass(frozen=True)
class Letterbox:
    """Pixels at the right and at the bottom that count as a part of the image, as mmdet's ``Pad`` adds them."""

    value: tuple[int, int, int]  # of each channel, 0 to 255, in the order that the network wants
    size: tuple[int, int] | None = None  # least width and height; None for any
    square: bool = False  # whether the shorter side becomes as long as the longer one
    divisor: int = 1  # both sides become multiples of this

    def fill(self, width: int, height: int) -> tuple[int, int]:
        """Width and height with these pixels."""
        if self.size is not None:
            width, height = max(width, self.size[0]), max(height, self.size[1])
        if self.square:
            width = height = max(width, height)
        return math.ceil(width / self.divisor) * self.divisor, math.ceil(height / self.divisor) * self.divisor


@dataclass(frozen=True)
class Preprocess:
    """Steps in their order: resize, crop, letterbox, order of channels, normalise, pad; None is left out."""

    channels: str  # 'rgb' or 'bgr', what the network wants
    # mode, and width and height (for 'short_edge' twice the length of the edge)
    resize: tuple[str, int, int] | None = None
    # width and height, from the centre; a smaller image is kept as it is along that axis
    crop: tuple[int, int] | None = None
    mean: np.ndarray | None = None  # per channel, float32; x becomes (x - mean) / std
    std: np.ndarray | None = None  # per channel, float32
    pad: tuple[int, float] | None = None  # divisor of height and width, and the value that fills up
    letterbox: Letterbox | None = None  # pixels around the image that are normalised as it is

    @classmethod
    def parse(cls, text: str) -> Preprocess:
        """Read the JSON object of the metadata key ``rebnn.preprocess`` (docs/format.md)."""
        steps = parse_json(text, dict, 'rebnn.preprocess')
        unknown = sorted(steps.keys() - {'resize', 'crop', 'letterbox', 'channels', 'mean', 'std', 'pad'})
        if unknown:
            raise ModelFileError(f'rebnn.preprocess has the step {unknown[0]!r}, which this version does not know')
        if steps.get('channels') not in ('rgb', 'bgr'):
            raise ModelFileError(f"channels in rebnn.preprocess must be 'rgb' or 'bgr', not {steps.get('channels')!r}")
        if ('mean' in steps) != ('std' in steps):
            raise ModelFileError('rebnn.preprocess must have mean and std, or neither')
        resize = _object(steps, 'resize', {'mode', 'size'})
        pad = _object(steps, 'pad', {'divisor', 'value'})
        std = _per_channel(steps, 'std')
        mean = _per_channel(steps, 'mean')
        if mean is not None and std is not None:
            if not std.all():
                raise ModelFileError('std in rebnn.preprocess must not be 0')
            with np.errstate(over='ignore'):
                ends = np.subtract.outer(np.array([0, 255], np.float32), mean) / std
            if not np.isfinite(ends).all():
                raise ModelFileError('mean and std in rebnn.preprocess make pixels that are not finite numbers')
        return cls(
            channels=steps['channels'],
            resize=None if resize is None else _resize(resize),
            crop=_pair(steps['crop'], 'crop') if 'crop' in steps else None,
            mean=mean,
            std=std,
            pad=None if pad is None else (_positive(pad['divisor'], 'pad'), _number(pad['value'], 'pad')),
            letterbox=_letterbox(steps['letterbox']) if 'letterbox' in steps else None,
        )

    def __call__(self, image: Image, *, kernels: bool = True) -> Prepared:
        """Prepare one image; the result with ``kernels`` is the same to the last bit."""
        image = as_image(image)
        height, width = image.shape[:2]
        steps = self.steps(width, height)
        tensor = prepare_image(image, steps) if kernels else None
        if tensor is None:
            tensor = prepare_by_numpy(image, steps)
        (new_height, new_width), (y, x) = steps.resized, steps.crop
        valid = steps.size if self.letterbox is not None else steps.kept
        return Prepared(self._pad_rest(tensor), valid, (new_width / width, new_height / height), (x, y))

    def steps(self, width: int, height: int) -> Steps:
        """Plan the steps for an image of this size; after a letterbox without the padding."""
        new_width, new_height = self._compute_size(width, height)
        kept_width, kept_height = new_width, new_height
        if self.crop is not None:
            kept_width, kept_height = min(self.crop[0], new_width), min(self.crop[1], new_height)
        full_width, full_height = largest = self._full(kept_width, kept_height)
        fill: np.ndarray = np.full(3, 0.0 if self.pad is None else self.pad[1], np.float32)
        if self.letterbox is not None:
            full_width, full_height = self.letterbox.fill(kept_width, kept_height)
            largest = self._full(full_width, full_height)
            fill = np.array(self.letterbox.value, np.float32)
            if self.mean is not None and self.std is not None:
                fill = (fill - self.mean) / self.std
        if min(new_width, new_height) < 1 or max(new_width * new_height, math.prod(largest)) > MAX_PIXELS:
            raise ImageError(
                f'an image of {width} x {height} pixels would become {new_width} x {new_height} in this model, which '
                f'takes 1 to {MAX_PIXELS} pixels; crop the image first'
            )
        return Steps(
            resized=(new_height, new_width),
            # mmcv rounds halves to even here
            crop=(round((new_height - kept_height) / 2), round((new_width - kept_width) / 2)),
            kept=(kept_height, kept_width),
            size=(full_height, full_width),
            reverse=self.channels == 'bgr',
            mean=self.mean,
            std=self.std,
            fill=fill,
        )

    def _full(self, width: int, height: int) -> tuple[int, int]:
        """Width and height with the padding."""
        divisor = 1 if self.pad is None else self.pad[0]
        return math.ceil(width / divisor) * divisor, math.ceil(height / divisor) * divisor

    def _pad_rest(self, tensor: np.ndarray) -> np.ndarray:
        """Add the padding that is still missing after a letterbox."""
        height, width = tensor.shape[2:]
        full_width, full_height = self._full(width, height)
        if (full_width, full_height) == (width, height) or self.pad is None:
            return tensor
        padded = np.full((1, 3, full_height, full_width), self.pad[1], np.float32)
        padded[..., :height, :width] = tensor
        return padded

    def _compute_size(self, width: int, height: int) -> tuple[int, int]:
        if self.resize is None:
            return width, height
        mode, first, second = self.resize
        if mode == 'exact':
            return first, second
        if mode == 'short_edge':
            return (first, int(first * height / width)) if width < height else (int(first * width / height), first)
        factor = min(max(first, second) / max(width, height), min(first, second) / min(width, height))
        return int(width * factor + 0.5), int(height * factor + 0.5)


def prepare_by_numpy(image: np.ndarray, steps: Steps) -> np.ndarray:
    """Prepare an image as :func:`rebnn_mm.deploy.prepare.prepare_image` does; used where there is no librebnn."""
    (y, x), (height, width) = steps.crop, steps.kept
    resized = resize_bilinear(image, steps.resized[::-1])[y : y + height, x : x + width]
    planes = (resized[..., ::-1] if steps.reverse else resized).transpose(2, 0, 1).astype(np.float32)
    if steps.mean is not None and steps.std is not None:
        planes -= steps.mean[:, None, None]
        planes /= steps.std[:, None, None]
    tensor = np.empty((1, 3, *steps.size), np.float32)
    tensor[:] = steps.fill[:, None, None]
    tensor[0, :, :height, :width] = planes
    return tensor


def _wrong(key: str, what: str, value: object) -> ModelFileError:
    return ModelFileError(f'{key} in rebnn.preprocess must {what}, not {str(value)[:60]}')


def _object(steps: Mapping[str, Any], key: str, names: set[str]) -> dict[str, Any] | None:
    if key not in steps:
        return None
    value = steps[key]
    if not isinstance(value, dict) or value.keys() != names:
        raise _wrong(key, f'have {" and ".join(sorted(names))}', value)
    return value


def _resize(value: Mapping[str, Any]) -> tuple[str, int, int]:
    mode, size = value['mode'], value['size']
    if mode not in RESIZE_MODES:
        raise ModelFileError(f'resize in rebnn.preprocess has the mode {str(mode)[:60]!r}, not one of {RESIZE_MODES}')
    width, height = _pair([size, size] if mode == 'short_edge' else size, 'resize')
    return mode, width, height


def _letterbox(value: Any) -> Letterbox:
    known = {'value', 'size', 'square', 'divisor'}
    if (
        not isinstance(value, dict)
        or 'value' not in value
        or value.keys() - known
        or type(value.get('square', False)) is not bool
    ):
        what = 'have value, and size, square (true or false) and divisor where they are wanted'
        raise _wrong('letterbox', what, value)
    pixel = value['value']
    if not isinstance(pixel, list) or len(pixel) != 3 or any(type(v) is not int or not 0 <= v <= 255 for v in pixel):
        raise _wrong('letterbox', 'fill with three numbers of 0 to 255', pixel)
    return Letterbox(
        value=(pixel[0], pixel[1], pixel[2]),
        size=_pair(value['size'], 'letterbox') if 'size' in value else None,
        square=value.get('square', False),
        divisor=_positive(value.get('divisor', 1), 'letterbox'),
    )


def _pair(value: Any, key: str) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise _wrong(key, 'be a width and a height', value)
    return _positive(value[0], key), _positive(value[1], key)


def _positive(value: Any, key: str) -> int:
    if type(value) is not int or not 0 < value <= MAX_PIXELS:
        raise _wrong(key, 'be in whole numbers from 1 on', value)
    return value


def _number(value: Any, key: str) -> float:
    if type(value) not in (int, float) or not abs(value) < float(np.finfo(np.float32).max):
        raise _wrong(key, 'be in float32 numbers', value)
    return float(value)


def _per_channel(steps: Mapping[str, Any], key: str) -> np.ndarray | None:
    if key not in steps:
        return None
    value = steps[key]
    if not isinstance(value, list) or len(value) != 3:
        raise _wrong(key, 'be three numbers', value)
    return np.array([_number(entry, key) for entry in value], np.float32)
