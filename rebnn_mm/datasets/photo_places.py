"""Images with boxes of a folder: where they are, how large, and for what their folders say that they are."""

from __future__ import annotations

import fnmatch
import math
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

from PIL import Image

from rebnn_mm.deploy.decode import ORIENTATION, is_whole
from rebnn_mm.deploy.image import refuse_32_bits
from rebnn_mm.deploy.several import PICTURES as IMAGES
from rebnn_mm.errors import RebnnError

SPLITS = ('train', 'val', 'test')


class Box(NamedTuple):
    """An object: its class, and left, top, width and height in pixels; area where it is another, as a mask's."""

    name: str
    left: float
    top: float
    width: float
    height: float
    crowd: bool = False
    area: float = 0.0


class Photo(NamedTuple):
    """An image: its path below the folder, its size, its objects."""

    file: str
    width: int
    height: int
    boxes: list[Box]


def refuse_wrong(path: Path, wrong: Sequence[str]) -> None:
    """Refuse annotations with the first of their faults."""
    if wrong:
        more = f', and {len(wrong) - 1} more like it' if len(wrong) > 1 else ''
        raise RebnnError(f'{path}: {wrong[0]}{more}.')


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def lines_of(path: Path) -> list[str]:
    """The lines of a text file that hold something, without the blanks around it."""
    lines = path.read_text(encoding='utf-8-sig', errors='replace').splitlines()
    return [line.strip() for line in lines if line.strip()]


def find_box_faults(what: str, left: float, top: float, width: float, height: float) -> list[str]:
    """List what is wrong with the numbers of a box."""
    if not all(map(math.isfinite, (left, top, width, height))):
        return [f'{what} is not a box of four numbers']
    return [f'{what} ends before it begins: its corners are swapped'] if min(width, height) < 0 else []


class Places:
    """Find the images of a folder, and the size of each when upright."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self.unseen: dict[str, str] = {}  # those that no annotation was of, by where links lead
        self.by_name: dict[str, list[Path]] = {}
        for path in visible(folder, '*'):
            if path.suffix.lower() in IMAGES and path.is_file():
                self.by_name.setdefault(_alike(path.name), []).append(path)
                self.unseen[os.path.realpath(path)] = os.path.relpath(path, folder)

    def find(self, name: str, annotation: Path, split: str) -> Path | None:
        """The file that annotations call so: below a usual folder, or the only one of that name.

        A name with a folder stands for one in a folder of that name, since cameras number the images of all alike.
        Where that folder is outside, as a server's that has written the annotations, the name alone counts.
        """
        if '\\' in name and not (self.folder / name).is_file():  # as Windows writes it
            name = name.replace('\\', '/')
        found = self._called(name)
        inner = Path(name).parent.name
        outside = PureWindowsPath(name).root or '..' in Path(name).parts
        if inner:
            found = [path for path in found if path.parent.name == inner] or (found if outside else [])
        fitting = [path for path in found if split_of_folder(path, self.folder) == split]
        own = fitting if len(fitting) == 1 else []
        for path in (annotation.parent / name, *own, self.folder / name):
            if path.is_file():
                return path
        for place in (annotation.parent.parent, self.folder):
            for usual in ('images', 'JPEGImages', split):
                if place.is_relative_to(self.folder) and (place / usual / name).is_file():
                    return place / usual / name
        alone = found if len(found) == 1 else [path for path in found if path.parent.name == annotation.parent.name]
        return alone[0] if len(alone) == 1 else None

    def _called(self, name: str) -> list[Path]:
        """The images of that name, or else of one that differs in what Windows and macOS take for the same."""
        file = PureWindowsPath(name).name
        found = self.by_name.get(_alike(file), [])
        return [path for path in found if path.name == file] or found

    def explain_missing(self, name: str) -> str:
        """Say why :meth:`find` finds none."""
        several = len(self._called(name))
        if several > 1:
            return f'{several} images in {self.folder} are called {name}, and nothing tells which one is meant'
        return f'there is no image {name} in {self.folder}'

    def one_each(self, names: Sequence[str]) -> list[str]:
        """The names of classes without those that come again, which are noted."""
        twice = dict.fromkeys(name for name in names if names.count(name) > 1)
        self.notes += [f'classes of one name are taken for one\t{name}' for name in twice]
        return list(dict.fromkeys(names))

    def photo(self, path: Path, size: tuple[int, int], boxes: list[Box], wrong: list[str]) -> Photo:
        """The image with its boxes; what is wrong with it is noted."""
        self.unseen.pop(os.path.realpath(path), None)
        try:
            with Image.open(path) as image:
                refuse_32_bits(image)
                if image.format != 'JPEG':
                    image.load()
                elif not is_whole(path.read_bytes()):
                    wrong.append(f'{path} is cut off: copy or download it again')
                turn = image.getexif().get(ORIENTATION, 1)
                real = image.size[::-1] if turn in (5, 6, 7, 8) else image.size
                turned = real != image.size == size
                if turn != 1 and image.format == 'WEBP':
                    what = 'is turned by its EXIF data, which OpenCV does not do with WebP: save it upright'
                    wrong.append(f'{path} {what}')
                if image.format == 'TIFF' and image.mode == 'RGBA':
                    wrong.append(f'{path} is a TIFF with alpha, whose colours OpenCV changes: save it as PNG')
        except Exception as error:  # a damaged file makes Pillow raise almost anything
            wrong.append(f'{path} cannot be read as an image ({error})')
            real = size
        if all(size) and real != size:
            fix = ': remove the turn in its EXIF data if the boxes fit without it, else correct the size'
            what = f'is {real[0]}x{real[1]}, and its annotations are for {size[0]}x{size[1]}'
            wrong.append(f'{path} {what}{fix if turned else ""}')
        return Photo(os.path.relpath(path, self.folder), real[0], real[1], boxes)


def visible(folder: Path, pattern: str) -> Iterator[Path]:
    """The files below a folder and the folders linked there: no copies that macOS or Jupyter hide, no dead links.

    Nor what trainings wrote to ``work_dirs``, such as curves and painted images.
    """
    root, seen, passed = folder.resolve(), set[Path](), ('__MACOSX', 'work_dirs')
    for place, folders, files in os.walk(folder, followlinks=True):
        shown = (Path(place, name) for name in fnmatch.filter(files, pattern) if not name.startswith('.'))
        yield from filter(Path.exists, shown)
        inner = [Path(place, name) for name in sorted(folders) if not name.startswith('.') and name not in passed]
        links = {path: path.resolve() for path in inner if path.is_symlink()}
        # What a link shows once more would make each image there two.
        again = {p for p, to in links.items() if to in seen or to.is_relative_to(root) or root.is_relative_to(to)}
        seen.update(links.values())
        folders[:] = [path.name for path in inner if path not in again]


def _alike(name: str) -> str:
    """A name without the case of its letters, each with its accent as one sign."""
    return unicodedata.normalize('NFC', name).casefold()


def split_of_folder(path: Path, folder: Path) -> str:
    """With which the name of the innermost folder begins that has one, such as ``valid``; '' if none has."""
    return find_split(reversed(path.relative_to(folder).parts[:-1]))


def find_split(names: Iterable[str]) -> str:
    """The split with which the first of the names begins that begins with one."""
    known = r'(?i)train|test|val(?=id|set|data|im|[\W\d_]|$)'  # not 'valves'
    return next((found[0].lower() for name in names if (found := re.match(known, name))), '')


def by_folder(photos: Sequence[Photo], places: Places, found_in: Sequence[Path] = ()) -> dict[str, list[Photo]]:
    """The splits that folders of the photos, or of the paths given for them, say; without any all are for training."""
    splits: dict[str, list[Photo]] = {}
    paths = found_in or [places.folder / photo.file for photo in photos]
    for path, photo in zip(paths, photos, strict=True):
        # An image outside of the folder is in none of a split.
        split = split_of_folder(path, places.folder) if path.is_relative_to(places.folder) else ''
        splits.setdefault(split, []).append(photo)
    if '' in splits and 'train' in splits:
        places.notes += [f'are in no folder of a split and not used\t{photo.file}' for photo in splits.pop('')]
    splits = {split or 'train': found for split, found in splits.items()}
    # So the only name means something else.
    return splits if len(splits) > 1 or 'train' in splits else {'train': list(photos)}
