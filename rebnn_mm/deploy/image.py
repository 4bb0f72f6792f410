"""Images as arrays: in whatever form they come, checked, read from files, and resized as OpenCV does."""

from __future__ import annotations

import sys
from io import BytesIO
from os import PathLike
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .decode import ORIENTATION, jpeg_pixels
from .errors import ImageError, check_file, first_sentence
from .zoo import in_zoo, zoo_path

if TYPE_CHECKING:
    import PIL.Image

Image: TypeAlias = 'np.ndarray | str | PathLike[str] | bytes | IO[bytes] | PIL.Image.Image'
"""An image as a model takes it, see :func:`as_image`."""


def as_image(image: Any) -> np.ndarray:
    """An image in any form that people have, as uint8 [H, W, 3] in RGB order; an ImageError says what it is instead.

    - the path of a file, its bytes, or a file that is open for reading bytes, in any format that Pillow reads;
    - an image of Pillow;
    - an array [H, W, 3] in RGB order, [H, W, 4] with an alpha channel, which is dropped, or [H, W] or [H, W, 1] in
      grey: of uint8, of other integers from 0 to 255, of uint16, whose upper half is kept, of bool, or of floats
      from 0 to 1, which are multiplied by 255 and rounded.
    """
    if isinstance(image, str | PathLike | bytes | bytearray | memoryview) or hasattr(image, 'read'):
        return read_image(image)
    # in another thread it may be half imported, and without the class
    pillow = getattr(sys.modules.get('PIL.Image'), 'Image', None)
    if pillow is not None and isinstance(image, pillow):
        try:
            return _from_pillow(image)
        except Exception as error:  # a damaged file makes Pillow raise almost anything
            raise ImageError(f'the image of Pillow cannot be read ({first_sentence(error)})') from None
    if not isinstance(image, np.ndarray):
        raise ImageError(
            'an image must be the path of a file, its bytes, an image of Pillow or a NumPy array, not '
            f'{type(image).__name__}'
        )
    channels = image.shape[2] if image.ndim == 3 else 1
    if image.ndim not in (2, 3) or channels not in (1, 3, 4) or image.size == 0:
        hint = '; move its channels to the end' if image.ndim == 3 and image.shape[0] in (1, 3, 4) else ''
        raise ImageError(
            'an array must have the shape [height, width], or [height, width, channels] with 1, 3 or 4 channels, not '
            f'{list(image.shape)}{hint}'
        )
    planes = _to_bytes(image.reshape(*image.shape[:2], channels)[..., :3])
    return np.repeat(planes, 3, axis=2) if channels == 1 else planes


def _to_bytes(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.uint16:
        return (array >> 8).astype(np.uint8)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * 255
    if np.issubdtype(array.dtype, np.integer):
        if array.min() < 0 or array.max() > 255:
            raise ImageError(
                f'an array of {array.dtype} must hold numbers from 0 to 255, and this one goes from {array.min()} to '
                f'{array.max()}'
            )
        return array.astype(np.uint8)
    if not np.issubdtype(array.dtype, np.floating):
        raise ImageError(f'an array must be of integers, bool or floats, not of {array.dtype}')
    if not (array.min() >= 0 and array.max() <= 1):
        raise ImageError(
            f'an array of {array.dtype} must hold numbers from 0 to 1, and this one goes from {array.min():g} to '
            f'{array.max():g}; if it should be 0 to 255, give it as uint8'
        )
    return np.rint(array.astype(np.float64) * 255).astype(np.uint8)


def read_image(source: str | PathLike[str] | bytes | bytearray | memoryview | IO[bytes]) -> np.ndarray:
    """Read an image file as uint8 [H, W, 3], RGB, with Pillow, or with what gives the same pixels faster.

    It is turned upright as its EXIF entry says; alpha, 16 bits and grey are as in OpenCV's ``imread``.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ImageError('reading an image file needs Pillow: pip install pillow, or pass an array instead') from None
    file: Any
    if isinstance(source, str | PathLike):
        name = str(source)
        file = source = zoo_path(source) if in_zoo(source) else source
        check_file(source, 'image', ImageError)
    else:
        data = source.read() if hasattr(source, 'read') else source
        if isinstance(data, str):
            raise ImageError('an image is read from files that are open for bytes: open(path, "rb")')
        name, file = f'what was given as {len(data)} bytes', BytesIO(data)
    try:
        with Image.open(file) as image:
            pixels = jpeg_pixels(image)
            return _from_pillow(image) if pixels is None else pixels
    except Exception as error:  # a damaged file makes Pillow raise almost anything
        raise ImageError(f'{name} cannot be read as an image ({first_sentence(error)})') from None


SIXTEEN_BITS = ('PNG', 'PPM')
"""Formats of which Pillow gives, in some versions, grey of 16 bits as mode I."""


def refuse_32_bits(image: PIL.Image.Image) -> None:
    """Refuse an image whose numbers do not say what is white, or what colours they are."""
    if image.mode == 'F' or (image.mode == 'I' and image.format not in SIXTEEN_BITS):
        raise ImageError(f'its pixels are of 32 bits, mode {image.mode}, without a white; save it with 8 or 16 bits')
    if image.mode == 'LAB':
        raise ImageError('its colours are LAB, which Pillow reads differently from OpenCV in training; save it as RGB')


def _from_pillow(image: PIL.Image.Image) -> np.ndarray:
    # ImageOps.exif_transpose writes the EXIF block again, and stops at an entry that it read but cannot write.
    image.load()  # first: the block may come after the pixels
    orientation = image.getexif().get(ORIENTATION)
    refuse_32_bits(image)
    if 0 in image.size:
        raise ImageError(f'it is {image.width} x {image.height} pixels large')
    if image.mode.startswith('I'):
        pixels = np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, axis=2)
    else:
        pixels = np.asarray(image.convert('RGB'))
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.array(pixels, order='C')


COEFFICIENT_BITS = 11
"""OpenCV's INTER_RESIZE_COEF_BITS: weights are whole numbers of 1 / 2048."""


def resize_bilinear(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    r"""Resize uint8 [H, W, C] as ``cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)`` does, to the last bit.

    Pixel :math:`i` of the result lies at :math:`x = (i + 1/2) s - 1/2` of the source, s being the ratio of the sizes,
    between the pixels :math:`\lfloor x \rfloor` and :math:`\lfloor x \rfloor + 1` with the weights :math:`1 - f` and
    :math:`f`, rounded to multiples of :math:`2^{-11}`. Sums are of whole numbers: along the rows first, shifted right
    by 4, then down the columns, each product shifted right by 16, their sum by 2 with rounding. Halving both sizes
    exactly is the mean of four pixels instead.

    Source: OpenCV's documented behaviour of ``resize``; checked against version 4.12.
    """
    height, width = image.shape[:2]
    if (width, height) == size:
        return image.copy()
    if (width, height) == (2 * size[0], 2 * size[1]):
        wide = image.astype(np.uint16)
        return ((wide[::2, ::2] + wide[::2, 1::2] + wide[1::2, ::2] + wide[1::2, 1::2] + 2) >> 2).astype(np.uint8)

    left, x_fraction = _positions(width, size[0])
    outside = (left < 0) | (left >= width - 1)
    x_fraction[outside] = 0
    left = left.clip(0, width - 1)
    right = (left + 1).clip(max=width - 1)
    top, y_fraction = _positions(height, size[1])
    rows, index = np.unique(np.concatenate([top, top + 1]).clip(0, height - 1), return_inverse=True)

    source = image[rows]
    lines = source[:, left] * _weights(1 - x_fraction)[:, None] + source[:, right] * _weights(x_fraction)[:, None]
    lines >>= 4
    upper, lower = lines[index[: size[1]]], lines[index[size[1] :]]
    upper *= _weights(1 - y_fraction)[:, None, None]
    lower *= _weights(y_fraction)[:, None, None]
    return (((upper >> 16) + (lower >> 16) + 2) >> 2).astype(np.uint8)


def _positions(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """For each new pixel the old pixel before it, int64, and the float32 distance from there."""
    # The ratio is the inverse of an inverse in OpenCV, which now and then differs from old / new in the last bit.
    place = ((np.arange(new) + 0.5) * (1 / (new / old)) - 0.5).astype(np.float32)
    before = np.floor(place)
    return before.astype(np.int64), place - before


def _weights(fraction: np.ndarray) -> np.ndarray:
    return np.rint(fraction * np.float32(1 << COEFFICIENT_BITS)).astype(np.int32)
