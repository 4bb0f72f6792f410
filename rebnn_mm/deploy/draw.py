"""Paints detections into an image with Pillow."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .detector import Detections
from .errors import ImageError, first_sentence
from .whole_file import whole_file

if TYPE_CHECKING:
    from PIL import Image


def draw(image: np.ndarray, found: Detections) -> Image.Image:
    """The image with a box, a name and a score for each object.

    Args:
        image: uint8 [H, W, 3], RGB.
        found: boxes in pixels of this image.

    Returns:
        A Pillow image of the same size.

    Example:
        >>> found = Detections(np.array([[2, 2, 30, 30.]]), np.array([0.9]), np.array([0]), ('cat',))
        >>> draw(np.zeros((32, 32, 3), np.uint8), found).size
        (32, 32)
    """
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(image)
    pen = ImageDraw.Draw(picture)
    size = max(10, round(min(picture.size) / 40))
    font = ImageFont.load_default(size)
    width = max(1, size // 8)
    # the highest score last, on top
    for index in reversed(range(len(found))):
        x1, y1, x2, y2 = np.clip(found.boxes[index], 0, [picture.width, picture.height] * 2).tolist()
        colour = _colour(int(found.labels[index]))
        pen.rectangle((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), outline=colour, width=width)
        # the built-in font has no other letters
        text = f'{found.names[index]} {found.scores[index]:.2f}'.encode('latin-1', 'replace').decode('latin-1')
        corner = (x1, max(0, y1 - size - 2 * width))
        pen.rectangle(pen.textbbox(corner, text, font=font), fill=colour)
        pen.text(corner, text, fill='black', font=font)
    return picture


def check_picture_path(path: Path) -> None:
    """Refuse a path to which no picture can be written, before any work is done.

    Raises:
        ImageError: no such folder, or an ending that Pillow does not write.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ImageError('writing an image file needs Pillow: pip install pillow') from None
    if not path.parent.is_dir():
        raise ImageError(f'no folder {path.parent} to write {path.name} to')
    if Image.registered_extensions().get(path.suffix.lower()) not in Image.SAVE:
        raise ImageError(f'{path}: images are written as .jpg or .png')


def save(picture: Image.Image, path: Path) -> None:
    """Write a picture under a temporary name first, so that no half of one is ever left.

    Raises:
        ImageError: it cannot be written.
    """
    from PIL import Image

    try:
        with whole_file(path) as part:
            picture.save(part, format=Image.registered_extensions()[path.suffix.lower()])
    except (OSError, ValueError) as error:
        raise ImageError(f'{path} cannot be written ({first_sentence(error)})') from None


def _colour(label: int) -> tuple[int, int, int]:
    """Neighbouring labels get hues far from each other: steps of the golden section."""
    red, green, blue = colorsys.hsv_to_rgb(label * 0.618034 % 1, 0.65, 1)
    return round(red * 255), round(green * 255), round(blue * 255)
