"""Images as arrays: checked, and read from files."""

from __future__ import annotations

from os import PathLike

import numpy as np

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
    """Read an image file with Pillow, turned upright as its EXIF entry says.

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
            image = ImageOps.exif_transpose(file)
            if image.mode.startswith('I;16'):
                grey = (np.asarray(image) >> 8).astype(np.uint8)
                return np.repeat(grey[..., None], 3, axis=2)
            return np.array(image.convert('RGB'))
    except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        raise ImageError(f'{path} cannot be read as an image ({first_sentence(error)})') from None
