"""Write the painted images of the command into a folder or a video."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .draw import can_be_written, save
from .errors import ImageError, first_sentence
from .several import VIDEOS, is_live, is_video, opencv
from .whole_file import is_input, whole_file

if TYPE_CHECKING:
    import PIL.Image

Add = Callable[[str, 'PIL.Image.Image'], None]
"""Takes the name of an image, as ``images_of`` gives it, and its picture."""

WRITTEN = {'.avi': 'MJPG', '.mkv': 'mp4v', '.mov': 'mp4v', '.mp4': 'mp4v'}
"""Codecs of videos by their endings: those that every build of OpenCV has."""

RATE = 25
"""Frames a second where no video file says another number."""


def open_output(out: Path, sources: Sequence[str]) -> AbstractContextManager[Add]:
    """Choose between folder and video by the ending; what is there once the block has ended is whole."""
    if out.suffix.lower() in WRITTEN and not out.is_dir():
        if is_input(out, sources):
            raise ImageError(f'--out {out} would overwrite an input; give another name')
        return _video(out, sources)
    files = (one for one in sources if os.path.exists(one) and not is_video(one))
    if out.is_dir() and any(out.samefile(one if os.path.isdir(one) else Path(one).parent) for one in files):
        raise ImageError(f'--out {out} holds inputs, which would be overwritten; give another folder')
    if out.exists() and not out.is_dir():
        raise ImageError(f'--out {out} is a file; several images go into a folder, or a video such as painted.mp4')
    return _folder(out)


@contextmanager
def _folder(folder: Path) -> Iterator[Add]:
    """Files keep their names and formats; of two of one name the second gets a number."""
    taken: set[str] = set()

    def add(name: str, picture: PIL.Image.Image) -> None:
        frame = re.fullmatch(r'(.*)#(\d+)', name)
        file = Path(frame[1] if frame else name)
        stem = f'{file.stem.replace(":", "_")}_{int(frame[2]):06}' if frame else file.stem
        ending = file.suffix if not frame and can_be_written(file) else '.png'
        number, target = 1, f'{stem}{ending}'
        while target in taken:
            number += 1
            target = f'{stem}_{number}{ending}'
        taken.add(target)
        save(picture, folder / target)

    yield add


@contextmanager
def _video(path: Path, sources: Sequence[str]) -> Iterator[Add]:
    """Who stops in the middle keeps the frames that there are: a camera ends in no other way."""
    cv2 = opencv(f'--out {path}')
    videos = (cv2.VideoCapture(one) for one in sources if not is_live(one) and Path(one).suffix.lower() in VIDEOS)
    rate = next((found for found in (video.get(cv2.CAP_PROP_FPS) for video in videos) if found > 0), RATE)
    codec = WRITTEN[path.suffix.lower()]
    stopped, writer, size = None, cv2.VideoWriter(), (0, 0)

    def add(name: str, picture: PIL.Image.Image) -> None:
        nonlocal size
        if not size[0]:
            size = picture.size
            if not writer.open(str(part), cv2.VideoWriter_fourcc(*codec), rate, size):
                raise ImageError(
                    f'{path} cannot be written: this OpenCV has no codec {codec} for {size[0]} x {size[1]}'
                )
        if picture.size != size:
            raise ImageError(
                f'{path} has frames of {size[0]} x {size[1]}, and {name} is {picture.width} x {picture.height}; give '
                'a folder in place of a video'
            )
        writer.write(np.asarray(picture)[..., ::-1].copy())

    try:
        with whole_file(path) as part:
            try:
                yield add
            except (KeyboardInterrupt, GeneratorExit) as error:
                stopped = error
            finally:
                writer.release()
            if not size[0]:
                raise ImageError(f'{path}: there is no frame to write')
            with part.open('ab') as end:  # on a full disk OpenCV only logs it
                length = end.tell()
                end.write(bytes(1 << 16))
                end.truncate(length)
    except OSError as error:
        raise ImageError(f'{path} cannot be written ({first_sentence(error)})') from None
    if stopped is not None:
        raise stopped
