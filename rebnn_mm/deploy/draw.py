"""Paints boxes into an image with Pillow."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .errors import ImageError, first_sentence
from .whole_file import whole_file

if TYPE_CHECKING:
    from PIL import Image


def draw(image: np.ndarray, boxes: np.ndarray, labels: Sequence[int], texts: Sequence[str]) -> Image.Image:
    """Paint boxes with texts above them, the first one on top.

    Args:
        image: uint8 [H, W, 3], RGB.
        boxes: [K, 4], x1, y1, x2, y2 in pixels of this image.
        labels: K numbers, which choose the colours.
        texts: what to write above each box.

    Returns:
        A Pillow image of the same size.

    Example:
        >>> draw(np.zeros((32, 32, 3), np.uint8), np.array([[2, 2, 30, 30]]), [0], ['cat 0.90']).size
        (32, 32)
    """
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(image)
    pen = ImageDraw.Draw(picture)
    size = max(10, round(min(picture.size) / 40))
    font = ImageFont.load_default(size)
    width = max(1, size // 8)
    for box, label, text in reversed(list(zip(boxes, labels, texts, strict=True))):
        x1, y1, x2, y2 = np.clip(box, 0, [picture.width, picture.height] * 2).tolist()
        # Neighbouring labels get hues far from each other: steps of the golden section.
        colour = tuple(round(255 * part) for part in colorsys.hsv_to_rgb(label * 0.618034 % 1, 0.65, 1))
        pen.rectangle((min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), outline=colour, width=width)
        # the built-in font has no other letters
        text = text.encode('latin-1', 'replace').decode('latin-1')
        corner = (x1, max(0, y1 - size - 2 * width))
        pen.rectangle(pen.textbbox(corner, text, font=font), fill=colour)
        pen.text(corner, text, fill='black', font=font)
    return picture


def can_be_written(path: Path) -> bool:
    """Whether Pillow writes images with this ending."""
    try:
        from PIL import Image
    except ImportError:
        raise ImageError('writing an image file needs Pillow: pip install pillow') from None
    return Image.registered_extensions().get(path.suffix.lower()) in Image.SAVE


def save(picture: Image.Image, path: Path) -> None:
    """Write a picture under a temporary name first, so that no half of one is ever left."""
    from PIL import Image

    try:
        with whole_file(path) as part:
            picture.save(part, format=Image.registered_extensions()[path.suffix.lower()])
    except (OSError, ValueError) as error:
        raise ImageError(f'{path} cannot be written ({first_sentence(error)})') from None
