"""Boxes in CSV files, a row for each: with names of columns, or in one of the usual orders."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import RebnnError
from .photo_places import (
    IMAGES,
    Box,
    Photo,
    Places,
    by_folder,
    find_box_faults,
    find_split,
    is_number,
    refuse_wrong,
    split_of_folder,
    visible,
)

COLUMNS = {
    'file': ('filename', 'file', 'filepath', 'image', 'imagepath', 'imagename', 'imagefile', 'path', 'img', 'imageid'),
    'name': ('class', 'classname', 'label', 'labelname', 'category', 'categoryname', 'name'),
    'split': ('split', 'set', 'subset', 'partition'),
}
"""Names of columns, in small letters and without signs, the likelier ones first."""

CORNERS = (('xmin', 'ymin', 'xmax', 'ymax'), ('x1', 'y1', 'x2', 'y2'), ('left', 'top', 'right', 'bottom'))
SIDES = (
    ('x', 'y', 'width', 'height'),
    ('x', 'y', 'w', 'h'),
    ('left', 'top', 'width', 'height'),
    ('xmin', 'ymin', 'width', 'height'),
    ('bboxx', 'bboxy', 'bboxwidth', 'bboxheight'),
)
"""Names of the four columns of a box, by its corners, or by its corner and its sides."""

SIZES = (('imagewidth', 'imageheight'), ('width', 'height'))
"""Names of the columns of an image's size."""

SETS = {'TRAIN': 'train', 'TRAINING': 'train', 'VALIDATION': 'val', 'VALIDATE': 'val', 'TEST': 'test'}
"""First column of the tables of Google's AutoML."""


class Table(NamedTuple):
    """A CSV file with boxes."""

    rows: dict[int, list[str]]  # by their numbers in the file, without that of the names of the columns
    named: bool  # whether there is such a row
    file: int  # column of the image
    name: int  # column of the class
    box: tuple[int, ...]  # columns of the box
    corners: bool  # whether these are two corners, else a corner and the sides
    split: int | None  # column of the split, if there is one
    size: tuple[int, ...] = ()  # columns of the image's size, if there are any


def csv_files(folder: Path) -> dict[str, Path]:
    """Of the CSV files of a folder the one with boxes of each split, by the file's name; a single one is 'train'."""
    tables = [path for path in sorted(visible(folder, '*.csv')) if _read_table(path) is not None]
    if len(tables) == 1:
        return {'': tables[0]}
    found: dict[str, Path] = {}
    for path in tables:
        split = find_split(re.findall('[A-Za-z]+', path.stem)) or split_of_folder(path, folder) or 'train'
        if split in found:
            raise RebnnError(
                f'{found[split]} and {path} could both be the boxes of one split. Name those to use: --train FILE '
                '--val FILE --test FILE.'
            )
        found[split] = path
    return found


def read_csv(files: Mapping[str, Path], places: Places) -> tuple[dict[str, list[Photo]], list[str]]:
    """The splits of CSV files, and the names of the classes in the order of the alphabet.

    A row without a box says that its image has none. Boxes are in pixels, or in shares where none is greater than 1.
    """
    splits: dict[str, list[Photo]] = {}
    for split, path in files.items():
        table = _read_table(path)
        if table is None:
            raise RebnnError(
                f'{path} has no columns of a box. Name them in its first row: filename, xmin, ymin, xmax, ymax, class.'
            )
        first = [] if table.named else next(iter(table.rows.values()))
        if first and all(first[column].strip() and not is_number(first[column]) for column in table.box):
            raise RebnnError(
                f'it has columns of names that are not known: {", ".join(first)}',
                str(path),
                'Name them filename, xmin, ymin, xmax, ymax, class, or leave out the row.',
            )
        wrong: list[str] = []
        photos: dict[tuple[str, Path], Photo] = {}
        values = [float(row[column]) for row in table.rows.values() for column in table.box if is_number(row[column])]
        shares = bool(values) and min(values) >= 0 and max(values) <= 1
        for number, row in table.rows.items():
            name = row[table.file].strip()
            file = _find(name, path, split, places)
            if file is None:
                wrong.append(f'row {number}: {places.explain_missing(name)}')
                continue
            named = '' if table.split is None else row[table.split].strip()
            own = split if table.split is None else SETS.get(named.upper()) or find_split([named])
            sides = [int(row[column]) for column in table.size if row[column].strip().isdecimal()]
            said = (sides[0], sides[1]) if len(sides) == 2 else (0, 0)
            photo = photos.get((own, file)) or places.photo(file, said, [], wrong)
            photos[own, file] = photo
            texts = [row[column].strip() for column in table.box]
            if not any(texts):
                continue
            size = (photo.width, photo.height)
            box = _box(f'row {number}', row[table.name].strip(), texts, table.corners, size if shares else None, wrong)
            if box is not None:
                photo.boxes.append(box)
        refuse_wrong(path, wrong)
        if shares:
            places.notes.append(f'boxes are read as shares of the width and height\t{path.name}')
        for (own, _), photo in photos.items():
            splits.setdefault(own, []).append(photo)
        if not table.named and not shares:
            places.notes.append(f'boxes are read as left, top, right, bottom\t{path.name}')
    loose = splits.pop('', [])
    if not splits:
        splits = by_folder(loose, places)
    else:
        places.notes += [f'are in no split and not used\t{photo.file}' for photo in loose]
    return splits, sorted({box.name for photos in splits.values() for photo in photos for box in photo.boxes})


def _read_table(path: Path) -> Table | None:
    """A file with its columns recognised; None if it holds no boxes."""
    data = path.read_bytes()
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode('utf-16' if wide else 'utf-8-sig', errors='replace')
    delimiter = max(',;\t', key=text.partition('\n')[0].count)
    before = csv.field_size_limit(len(text) + 1)  # a column may hold the points of a mask
    try:
        read = list(csv.reader(io.StringIO(text, newline=''), delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return None
    finally:
        csv.field_size_limit(before)
    columns = max(map(len, read), default=0)
    rows = {n: row + [''] * (columns - len(row)) for n, row in enumerate(read, 1) if any(map(str.strip, row))}
    table = (_with_header(rows, path) or _name_columns(rows)) if rows else None
    if table is not None and '\ufffd' in text:
        raise RebnnError('its letters are not in UTF-8.', str(path), 'Save it again with this encoding.')
    return table


def _with_header(rows: dict[int, list[str]], path: Path) -> Table | None:
    first = next(iter(rows))
    heads = [re.sub('[^a-z0-9]', '', head.lower()) for head in rows[first]]
    file, name, split = (
        next((heads.index(known) for known in COLUMNS[what] if known in heads), None)
        for what in ('file', 'name', 'split')
    )
    if file is None or name is None:
        return None
    for kinds, corners in ((CORNERS, True), (SIDES, False)):
        for kind in kinds:
            if set(kind) <= set(heads):
                box = tuple(heads.index(head) for head in kind)
                below = {number: row for number, row in rows.items() if number != first}
                named = max(column for column, head in enumerate(heads) if head) + 1
                long = next((number for number, row in below.items() if any(map(str.strip, row[named:]))), None)
                if long is not None:
                    what = f'row {long} has more values than the first row has names'
                    raise RebnnError(what, str(path), 'Put a text with the delimiter in it into quotes.')
                sizes = (names for names in SIZES if set(names) <= set(heads) - set(kind))
                size = tuple(heads.index(head) for head in next(sizes, ()))
                return Table(below, True, file, name, box, corners, split, size)
    return None


def _name_columns(rows: dict[int, list[str]]) -> Table | None:
    """A path, four numbers and a class, the class before or after them; or AutoML's set, path, class and corners."""
    full = next((row for row in rows.values() if sum(map(is_number, row)) >= 4), None)
    if full is None:
        return None
    if full[0].strip().upper() in {*SETS, 'UNASSIGNED'} and len(full) >= 9:
        return Table(rows, False, 1, 2, (3, 4, 7, 8), True, 0)
    if len(full) != 6 or not full[0].strip().lower().endswith(IMAGES):
        return None
    for name, box in ((5, (1, 2, 3, 4)), (1, (2, 3, 4, 5))):
        if all(is_number(full[column]) for column in box):
            return Table(rows, False, 0, name, box, True, None)
    return None


def _find(name: str, path: Path, split: str, places: Places) -> Path | None:
    """The image of that name, which may lack its ending."""
    names = [name] if name.lower().endswith(IMAGES) else [name, *(f'{name}{suffix}' for suffix in IMAGES)]
    return next((file for each in names if each and (file := places.find(each, path, split))), None)


def _box(
    at: str, name: str, texts: Sequence[str], corners: bool, size: tuple[int, int] | None, wrong: list[str]
) -> Box | None:
    if not name or not all(map(is_number, texts)):
        wrong.append(f'{at} has no class, or is not a box of four numbers')
        return None
    left, top, right, bottom = map(float, texts)
    width, height = (right - left, bottom - top) if corners else (right, bottom)
    faults = find_box_faults(at, left, top, width, height)
    if faults:
        wrong += faults
        return None
    if size is not None:
        left, top, width, height = (
            round(share * side, 2) for share, side in zip((left, top, width, height), size * 2, strict=True)
        )
    return Box(name, left, top, width, height)
