"""YOLO's labels: a text file for each image, a line for each object, coordinates as shares of the image's sides."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from rebnn_mm.deploy.errors import first_sentence

from ..errors import RebnnError
from .photo_places import IMAGES, SPLITS, Box, Photo, Places, by_folder, is_number, lines_of, refuse_wrong, visible

NAMES = ('classes.txt', 'obj.names', '_darknet.labels', 'classes.names')
"""Files that tools write with the name of a class in each line."""

BEYOND = 0.1
"""Share of a side up to which a box may reach beyond its image, and is cut; farther, it is not a share."""


def yolo_file(folder: Path) -> Path | None:
    """The ``data.yaml`` of a folder, or any other YAML file with names of classes and a split; None without one."""
    contents = {path: _content(path) for path in sorted(visible(folder, '*.y*ml'))}
    named = {path: c for path, c in contents.items() if isinstance(c.get('names'), list | dict)}
    found = [path for path, c in named.items() if any(map(c.get, SPLITS)) or path.name == 'data.yaml']
    first = [path for path in found if path.parent == folder and path.stem == 'data']
    if len(found) > 1 and not first:
        raise RebnnError(f"{found[0]} and {found[1]} both describe data in YOLO's form. Leave one there.")
    return next(iter(first or found), None)


def yolo_names_file(folder: Path) -> Path | None:
    """The file with a name of a class in each line that tools write next to labels, the longest; None without one."""
    found = {path: lines_of(path) for name in NAMES for path in sorted(visible(folder, name))}
    longest = max(found, key=lambda path: len(found[path]), default=None)
    other = next((path for path, names in found.items() if names != found[longest or path][: len(names)]), None)
    if other is not None:  # as labelImg writes one to each folder, in the order of use
        what = f'{longest} and {other} number the classes differently, and nothing tells which labels are of which.'
        raise RebnnError(what, fix='Label all images with one list.')
    return longest


def looks_like_yolo(folder: Path, places: Places) -> Path | None:
    """A text file with numbers of five or more in each line that belongs to an image; None without one."""
    for paths in places.by_name.values():
        for image in paths:
            path = label_of(image)
            if path.is_file() and path.is_relative_to(folder) and _has_boxes(path):
                return path
    return None


def _has_boxes(path: Path) -> bool:
    lines = [line.split() for line in lines_of(path)]
    return bool(lines) and all(len(line) >= 5 and all(map(is_number, line)) for line in lines)


def read_yolo(path: Path, places: Places) -> tuple[dict[str, list[Photo]], list[str]]:
    """The splits that a ``data.yaml`` lists, and the names of the classes in the order of their numbers.

    An image whose label file is empty has no object; one without a file is left out.
    """
    wrong: list[str] = []
    if path.name in NAMES:
        names = lines_of(path)
        listed = _read_lists(places)
        key_points = False
    else:
        content = _content(path)
        names = _names(content, path)
        given = {split: list(_images_of(content, split, path, places)) for split in SPLITS if content.get(split)}
        listed = {split: images for split, images in given.items() if images} or _read_lists(places)
        key_points = 'kpt_shape' in content
    splits: dict[str, list[Photo]] = {}
    for split, images in listed.items():
        splits[split] = []
        for image in images:
            label = label_of(image)
            if not label.is_file():
                places.unseen.setdefault(os.path.realpath(image), str(image))
                continue
            photo = places.photo(image, (0, 0), [], wrong)
            splits[split].append(photo._replace(boxes=_boxes(label, photo, names, key_points, places, wrong)))
        if images and not splits[split]:
            first = f'the first was looked for at {label_of(images[0])}'
            raise RebnnError(f'{path}: no image{split and f" of {split}"} has a label file; {first}.')
    used = {label_of(image) for images in listed.values() for image in images}
    known = {path.stem for paths in places.by_name.values() for path in paths}
    for folder in sorted({label.parent for label in used}):
        lone = (label for label in sorted(folder.glob('*.txt')) if label not in used and label.stem not in known)
        wrong += [f'{label} has boxes, and its image is missing' for label in lone if _has_boxes(label)]
    refuse_wrong(path, wrong)
    for real, name in sorted(places.unseen.items()):
        if label_of(places.folder / name).is_file():
            places.notes.append(f'are in no split and not used\t{places.unseen.pop(real)}')
    if '' in splits:
        splits = by_folder(splits[''], places)
    return splits, places.one_each(names)


def label_of(image: Path) -> Path:
    """Find the labels of an image, or of what it links to: next to it, or below ``labels`` for its last ``images``."""
    label, linked = _label_of(image), _label_of(image.resolve())
    return label if label.is_file() or not linked.is_file() else linked


def _label_of(image: Path) -> Path:
    next_to_it = image.with_suffix('.txt')
    parts = list(next_to_it.parts)
    places = [number for number, part in enumerate(parts[:-1]) if part == 'images']
    if not places or next_to_it.is_file():
        return next_to_it
    parts[places[-1]] = 'labels'
    return Path(*parts)


def _content(path: Path) -> dict[str, Any]:
    try:
        # All values as texts: a class may be called no, which YAML takes for False.
        content = yaml.load(path.read_text(encoding='utf-8-sig'), Loader=yaml.BaseLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        if path.name == 'data.yaml':  # others may be anything
            raise RebnnError(f'it cannot be read as YAML in UTF-8 ({first_sentence(error)}).', str(path)) from None
        return {}
    return content if isinstance(content, dict) else {}


def _names(content: Mapping[str, Any], path: Path) -> list[str]:
    given = content['names']
    if isinstance(given, list):
        return [str(name) for name in given]
    try:
        numbered = {int(number): str(name) for number, name in given.items()}
    except ValueError:
        raise RebnnError(f'{path}: names has a key that is not a number. Write 0: first, 1: second.') from None
    if sorted(numbered) != list(range(len(numbered))):
        raise RebnnError(f'{path}: names are to be numbered from 0 without a gap.')
    return [numbered[number] for number in range(len(numbered))]


def _images_of(content: Mapping[str, Any], split: str, path: Path, places: Places) -> Iterator[Path]:
    given = content[split]
    roots = [path.parent / str(content.get('path') or '.'), path.parent, places.folder]
    for entry in given if isinstance(given, list) else [given]:
        entry = str(entry).replace('\\', '/')  # as Windows writes it
        # Roboflow writes ../train/images for what lies next to the file.
        tries = [_absolute(root / name) for name in (entry, entry.removeprefix('../')) for root in roots]
        found = next((place for place in tries if place.exists()), None)
        if found is not None and found.is_file():
            yield from _read_list(found, roots[0], places)
            continue
        images = sorted(image for image in visible(found, '*') if image.suffix.lower() in IMAGES) if found else []
        if not images:
            lost = f'points to {entry}, which does not exist (relative to {roots[0]})'
            what = f'{path}: {split} {lost}' if found is None else f'{found} holds no image'
            if split != 'test':
                raise RebnnError(f'{what}.')
            places.notes.append(f'no test images\t{what}')  # Roboflow names their folder also without any
        yield from images


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # not what a link leads to, which has another name, and no labels next to it


def _read_list(path: Path, root: Path, places: Places) -> Iterator[Path]:
    for line in path.read_text(encoding='utf-8-sig', errors='surrogateescape').splitlines():
        if name := line.strip():
            near = [path.parent / name, root / name]
            found = next((_absolute(place) for place in near if place.is_file()), None) or places.find(name, path, '')
            if found is None:
                raise RebnnError(f'{path}: {places.explain_missing(name)}.')
            yield found


def _read_lists(places: Places) -> dict[str, list[Path]]:
    """Read the images of lists such as ``train.txt``; without one all images of the folder."""
    lists = {split: places.folder / f'{split}.txt' for split in SPLITS if (places.folder / f'{split}.txt').is_file()}
    if 'train' in lists:
        return {split: list(_read_list(path, places.folder, places)) for split, path in lists.items()}
    return {'': sorted(image for images in places.by_name.values() for image in images)}


def _boxes(
    label: Path, photo: Photo, names: list[str], key_points: bool, places: Places, wrong: list[str]
) -> list[Box]:
    boxes = []
    for number, line in enumerate(label.read_text(encoding='utf-8-sig', errors='replace').splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        at = f'{label}, line {number}'
        if not all(map(is_number, words)) or len(words) < 5:
            wrong.append(f'{at} is not a class and four or more numbers')
            continue
        kind, *values = map(float, words)
        if not kind.is_integer() or not 0 <= kind < len(names):
            wrong.append(f'{at} has the class {words[0]}, and there are {len(names)}, counted from 0')
            continue
        if len(values) >= 6 and len(values) % 2 == 0 and not key_points:
            places.notes.append(f'polygons and oriented boxes are replaced by the boxes around them\t{at}')
            left, top, right, bottom = min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2])
        else:
            if len(values) > 4:
                what = 'key points' if key_points else 'numbers after the box'
                places.notes.append(f'{what} are left out\t{at}')
            across, down, width, height = values[:4]
            left, top, right, bottom = across - width / 2, down - height / 2, across + width / 2, down + height / 2
            if min(width, height) < 0:
                wrong.append(f'{at} has a negative width or height')
                continue
        if not all(map(math.isfinite, values)) or min(left, top) < -BEYOND or max(right, bottom) > 1 + BEYOND:
            wrong.append(f'{at} is not a box of shares of the width and height, between 0 and 1')
            continue
        wide, high = photo.width, photo.height
        sides = [round(side, 2) for side in (left * wide, top * high, (right - left) * wide, (bottom - top) * high)]
        boxes.append(Box(names[int(kind)], sides[0], sides[1], sides[2], sides[3]))
    return boxes
