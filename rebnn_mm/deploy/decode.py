"""The pixels of JPEG files by OpenCV, which is faster, where it is installed and gives the same ones as Pillow."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import PIL.Image

Decode = Callable[[bytes], Any]
"""Gives uint8 [H, W, 3], RGB, or None for a file that it cannot read."""

START, SCAN, END = b'\xff\xd8', 0xDA, 0xD9
"""Marker at the beginning of a JPEG file, and numbers of those before coded pixels and at the end."""

MARKER = re.compile(rb'\xff+([^\x00\x01\xd0-\xd7\xff])', re.DOTALL)
"""A marker among coded pixels, but for those that belong to them."""

ORIENTATION = 0x0112
"""EXIF's tag of how an image is turned: 1 is upright, above 4 its sides change places."""


def jpeg_pixels(image: PIL.Image.Image) -> np.ndarray | None:
    """Decode a whole upright JPEG file in colour as Pillow would; None for others, or without OpenCV."""
    if image.format != 'JPEG' or image.mode != 'RGB' or image.getexif().get(ORIENTATION) not in (None, 1):
        return None
    decode = opencv_decoder()
    file = getattr(image, 'fp', None)
    if decode is None or file is None:
        return None
    place = file.tell()
    file.seek(0)
    data = file.read()
    file.seek(place)
    # A file that ends before its image is an error to Pillow, and a grey area to others.
    pixels = decode(data) if is_whole(data) else None
    return pixels if pixels is not None and pixels.shape == (image.height, image.width, 3) else None


def is_whole(data: bytes) -> bool:
    """Whether a JPEG file reaches to its end marker, not counting those of pictures inside of its header."""
    if not data.startswith(START):
        return False
    place, in_pixels = len(START), False
    while found := MARKER.search(data, place) if in_pixels else MARKER.match(data, place):
        kind = found[1][0]
        if kind == END:
            return True
        length = int.from_bytes(data[found.end() : found.end() + 2], 'big')
        place = found.end() + max(2, length)
        in_pixels = kind == SCAN or in_pixels
    return False


@cache
def opencv_decoder() -> Decode | None:
    """OpenCV's decoder, if it is installed and gives Pillow's pixels of two samples."""
    try:
        import cv2
    except ImportError:
        return None
    from PIL import Image

    wanted = getattr(cv2, 'IMREAD_COLOR_RGB', None)  # from 4.11 on

    def decode(data: bytes) -> Any:
        flags = (cv2.IMREAD_COLOR if wanted is None else wanted) | cv2.IMREAD_IGNORE_ORIENTATION
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB) if wanted is None and pixels is not None else pixels

    same = all(np.array_equal(decode(data), np.array(Image.open(BytesIO(data)))) for data in _samples())
    return decode if same else None


def _samples() -> list[bytes]:
    """Two small files, with colours in full and in a quarter of the resolution, the most frequent kind."""
    from PIL import Image

    rows, columns = np.mgrid[:37, :53]
    waves = [128 + 120 * np.sin(rows / a + columns / b) for a, b in ((3, 5), (2, 9), (7, 2))]
    image = Image.fromarray(np.stack(waves, axis=-1).astype(np.uint8))
    files = []
    for subsampling in (0, 2):
        file = BytesIO()
        image.save(file, 'JPEG', quality=80, subsampling=subsampling)
        files.append(file.getvalue())
    return files
