"""Images as arrays: checked, read from files, and resized as OpenCV does."""

from __future__ import annotations

from os import PathLike

import numpy as np

from .decode import jpeg_pixels
from .errors import ImageError, first_sentence, why_no_file


def check_image(image: object) -> None:
    """Refuse what is not a uint8 image [H, W, 3] with at least one pixel.

    Raises:
        ImageError: and says what it is instead.

    Example:
        >>> check_image(np.zeros((8, 8, 3), np.uint8))
    """
    if not isinstance(image, np.ndarray):
        raise ImageError(f'an image must be a NumPy array or the path of a file, not {type(image).__name__}')
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise ImageError(
            f'an image must be an array of uint8 with the shape [height, width, 3] in RGB order, not of {image.dtype} '
            f'with the shape {list(image.shape)}'
        )


def read_image(path: str | PathLike[str]) -> np.ndarray:
    """Read an image file with Pillow, or the pixels that it would give faster, turned upright as its EXIF entry says.

    Of an alpha channel nothing is kept, of 16-bit values the upper half, and a grey image gets three equal channels,
    all as in OpenCV's ``imread``.

    Args:
        path: a file in any format that Pillow reads.

    Returns:
        uint8 [H, W, 3], RGB.

    Raises:
        ImageError: there is no such file, it is no image, or Pillow is missing.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ImageError('reading an image file needs Pillow: pip install pillow, or pass an array instead') from None
    problem = why_no_file(path, 'image')
    if problem is not None:
        raise ImageError(problem)
    try:
        with Image.open(path) as file:
            pixels = jpeg_pixels(file)
            if pixels is not None:
                return pixels
            image = ImageOps.exif_transpose(file)
            if image.mode.startswith('I;16'):
                grey = (np.asarray(image) >> 8).astype(np.uint8)
                return np.repeat(grey[..., None], 3, axis=2)
            return np.array(image.convert('RGB'))
    except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        raise ImageError(f'{path} cannot be read as an image ({first_sentence(error)})') from None


COEFFICIENT_BITS = 11
"""OpenCV's INTER_RESIZE_COEF_BITS: weights are whole numbers of 1 / 2048."""


def resize_bilinear(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    r"""Resize as ``cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)`` does, to the last bit.

    Pixel :math:`i` of the result lies at :math:`x = (i + 1/2) s - 1/2` of the source, s being the ratio of the sizes,
    between the pixels :math:`\lfloor x \rfloor` and :math:`\lfloor x \rfloor + 1` with the weights :math:`1 - f` and
    :math:`f`, rounded to multiples of :math:`2^{-11}`. Sums are of whole numbers: along the rows first, shifted right
    by 4, then down the columns, each product shifted right by 16, their sum by 2 with rounding. Halving both sizes
    exactly is the mean of four pixels instead.

    Args:
        image: uint8 [H, W, C].
        size: width and height of the result.

    Returns:
        uint8 [height, width, C].

    Example:
        >>> row = np.array([[[0], [100]]], np.uint8)
        >>> resize_bilinear(row, (4, 1))[0, :, 0].tolist()
        [0, 25, 75, 100]

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
