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
    """Paint boxes with texts on top of them, the first one before all others.

    Args:
        image: uint8 [H, W, 3], RGB.
        boxes: [K, 4], x1, y1, x2, y2 in pixels of this image.
        labels: K numbers, which choose the colours.
        texts: what to write above each box, or below or in it where another text is above.

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
    edges = np.clip(boxes, 0, [picture.width, picture.height] * 2).tolist()
    for (x1, y1, x2, y2), label in reversed(list(zip(edges, labels, strict=True))):
        corners = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
        pen.rectangle(corners, outline=_colour(label), width=width)
    # All texts after all boxes, so that no box runs through one, and each where it hides none of a better box.
    taken: list[tuple[float, ...]] = []
    for (x1, y1, _, y2), label, text in zip(edges, labels, texts, strict=True):
        # the built-in font has no other letters
        text = text.encode('latin-1', 'replace').decode('latin-1')
        above, below = max(0, y1 - size - 2 * width), min(y2 + width, picture.height - size - width)
        x1 = max(0, min(x1, picture.width - pen.textlength(text, font=font)))
        places = [(x1, above), (x1, below), (x1, y1 + width)]
        free = [place for place in places if not _overlaps(pen.textbbox(place, text, font=font), taken)]
        place = (free or places)[0]
        taken.append(pen.textbbox(place, text, font=font))
        pen.rectangle(taken[-1], fill=_colour(label))
        pen.text(place, text, fill='black', font=font)
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


def _overlaps(box: tuple[float, ...], others: Sequence[tuple[float, ...]]) -> bool:
    x1, y1, x2, y2 = box
    return any(x1 <= right and left <= x2 and y1 <= bottom and top <= y2 for left, top, right, bottom in others)


def _colour(label: int) -> tuple[int, int, int]:
    """Neighbouring labels get hues far from each other: steps of the golden section."""
    red, green, blue = colorsys.hsv_to_rgb(label * 0.618034 % 1, 0.65, 1)
    return round(red * 255), round(green * 255), round(blue * 255)
