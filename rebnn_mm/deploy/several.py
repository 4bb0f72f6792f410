"""Many images for the command: files, folders, the frames of a video file, of a camera or of an address."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ImageError, clean_text, first_sentence
from .image import read_image

PICTURES = ('.bmp', '.jpeg', '.jpg', '.png', '.tif', '.tiff', '.webp')
VIDEOS = ('.avi', '.m4v', '.mkv', '.mov', '.mp4', '.mpeg', '.mpg', '.webm')
SHOWN = 10
"""Names of files that a warning gives."""

CAMERA = 'camera:'
"""Before the number of a camera, as OpenCV counts them."""

ADDRESSES = ('rtsp://', 'rtsps://', 'rtmp://', 'udp://', 'tcp://')
"""Of what sends a video, for instance a camera in the network."""

COUNTED = ('.avi', '.m4v', '.mov', '.mp4')
"""Videos whose header says how many frames there are; of others OpenCV estimates it."""

Named = tuple[str, np.ndarray | ImageError]


def is_several(source: str) -> bool:
    """Whether a source gives more than one image."""
    return is_video(source) or os.path.isdir(source)


def is_video(source: str) -> bool:
    """Whether a source gives frames: a video file, a camera or an address."""
    return is_live(source) or Path(source).suffix.lower() in VIDEOS


def is_live(source: str) -> bool:
    """Whether it is a camera or an address."""
    return (source.isdecimal() and not os.path.exists(source)) or source.lower().startswith((CAMERA, *ADDRESSES))


def images_of(sources: Iterable[str]) -> Iterator[Named]:
    """Give every image with its name, read when it is asked for; in place of one that cannot be read its error."""
    for source in sources:
        if os.path.isdir(source):
            for path in _files(source):
                yield str(path), _read(path)
        elif is_video(source):
            yield from _frames(source)
        else:
            yield source, _read(source)


def _read(source: str | Path) -> np.ndarray | ImageError:
    try:
        return read_image(source)
    except ImageError as error:
        return error


def _files(folder: str) -> list[Path]:
    """The images of a folder; hidden files, such as those that macOS adds on foreign disks, are none."""
    try:
        seen = sorted(path for path in Path(folder).iterdir() if not path.name.startswith('.'))
    except OSError as error:
        raise ImageError(f'the folder {folder} cannot be read ({first_sentence(error)})') from None
    folders = sum(path.is_dir() for path in seen)
    passed = f'{folders} subfolder{"s" if folders > 1 else ""} of {folder} not looked into'
    files = [path for path in seen if path.suffix.lower() in PICTURES and not path.is_dir()]
    if not files:
        hint = f'; {passed}' if folders else ''
        raise ImageError(f'there is no image in the folder {folder} ({", ".join(PICTURES)}){hint}')
    if folders:
        warnings.warn(f'{passed}; give each that holds images as an input of its own', stacklevel=2)
    others = [path.name for path in seen if path not in files and not path.is_dir()]
    if others:
        names = ', '.join(others[:SHOWN]) + (f' and {len(others) - SHOWN} more' if len(others) > SHOWN else '')
        warnings.warn(
            clean_text(f'skipped files of {folder} because of their endings: {names}; to read one, name it'),
            stacklevel=2,
        )
    return files


def _frames(source: str) -> Iterator[Named]:
    cv2, where, live = opencv(source), source, is_live(source)
    source = hide_password(source)
    if not live and not Path(source).is_file():
        raise ImageError(f'no video at {source}')
    camera = where.removeprefix(CAMERA)
    if where.startswith(CAMERA) and not camera.isdecimal():
        raise ImageError(f'{source}: a camera has a number, such as {CAMERA}0')
    capture = cv2.VideoCapture(int(camera) if live and camera.isdecimal() else where)
    try:
        if not capture.isOpened():
            raise ImageError(f'{source} cannot be opened as a video: OpenCV finds nothing there that it reads')
        # of a camera it is not a number of frames
        stated = 0 if live else max(0, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)))
        number = read = missing = 0
        while True:
            number += 1
            good, frame = capture.read()
            if good:
                for lost in range(number - missing, number):
                    yield _broken_frame(source, lost)
                missing, read = 0, read + 1
                yield f'{source}#{number}', cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
            elif number < stated:
                missing += 1  # a frame after it may be whole
            else:
                break
        if not read:
            raise ImageError(f'{source} has no frame that OpenCV can read')
        last = number - missing - 1
        if last < stated and Path(source).suffix.lower() in COUNTED:
            for lost in range(last + 1, stated + 1):
                yield _broken_frame(source, lost)
    finally:
        capture.release()


def opencv(name: str) -> Any:
    """Import OpenCV."""
    try:
        import cv2
    except ImportError:
        raise ImageError(f'{name}: a video or a camera needs OpenCV: pip install opencv-python-headless') from None
    return cv2


def hide_password(source: str) -> str:
    """Leave name and password out of an address, which is printed."""
    return re.sub(r'(?<=://)[^/]*@', '', source) if source.lower().startswith(ADDRESSES) else source


def _broken_frame(source: str, number: int) -> Named:
    return f'{source}#{number}', ImageError(f'frame {number} of {source} cannot be read')
