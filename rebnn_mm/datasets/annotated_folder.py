"""A folder of images with boxes, in COCO's, VOC's or YOLO's form or as CSV, as people have it: found and checked."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ..errors import RebnnError, did_you_mean
from .csv_boxes import csv_files, read_csv
from .photo_places import (
    IMAGES,
    Box,
    Photo,
    Places,
    by_folder,
    find_box_faults,
    find_split,
    lines_of,
    refuse_wrong,
    split_of_folder,
    visible,
)
from .yolo_labels import looks_like_yolo, read_yolo, yolo_file, yolo_names_file

LISTS = {
    'train': ('train', 'training'),
    'val': ('val', 'valid', 'validation'),
    'test': ('test', 'testing'),
    'trainval': ('trainval',),
}
"""Names that lists of ``ImageSets/Main`` have for each split; others are those of classes."""

WRITTEN = {'description': 'written by rebnn new-config'}
"""Marks files of annotations that are our own, which a second call does not take for the user's."""

FORMS = {
    'shapes': 'labelme',
    '_via_img_metadata': 'VGG Image Annotator',
    'assets': 'VoTT',
    'objects': 'Supervisely',
    'predictions': 'Label Studio',
}
"""Forms of JSON that are not read, by a key that they, or the first of their entries, have."""

FILES = {'*.tfrecord*': 'TFRecord', '*.parquet': 'Parquet', '*.ndjson': 'Labelbox NDJSON', 'annotations.xml': 'CVAT'}
"""Other forms that are not read, by the name of their files."""

LOOKED_AT = 20
"""JSON files that are looked into for another form."""

FEW = 20
"""Boxes of a class below which its training images are noted; and by how many times rarer a misspelt name is."""

VALIDATION = 0.2
"""Share of the images that is kept for validation where the folder does not say which."""


class Annotated(NamedTuple):
    """Annotations of a folder."""

    folder: Path  # of the images
    classes: tuple[str, ...]  # names of those that have an object, in the order of their numbers, or of the alphabet
    splits: dict[str, list[Photo]]  # 'train', 'val' and perhaps 'test'
    notes: list[str]  # what was corrected or left out, and what may surprise, one sentence each

    def boxes(self, split: str) -> list[Box]:
        """The objects of a split; those that stand for a crowd are left out."""
        return [box for photo in self.splits[split] for box in photo.boxes if not box.crowd]


def read_annotated(folder: str | Path, given: Mapping[str, str | Path] | None = None) -> Annotated:
    """Find the annotations of a folder in any form, read them and check them against the images."""
    folder = Path(folder).resolve()
    if not folder.is_dir():
        raise RebnnError(f'there is no folder {folder}.')
    places = Places(folder)
    named = {split: Path(path).resolve() for split, path in (given or {}).items()}
    splits, order = _read(places, named)
    notes, photos = places.notes, [photo for photos in splits.values() for photo in photos]
    notes += [f'images have no labels and are not used\t{file}' for file in sorted(places.unseen.values())]
    nameless = next((photo.file for photo in photos for box in photo.boxes if not box.name.strip()), None)
    if nameless is not None:
        raise RebnnError(f'{folder}: a box in {nameless} has no class, or one whose name is empty.')
    boxes = [box for photo in photos for box in photo.boxes]
    if boxes and all(max(box.left + box.width, box.top + box.height) <= 1 for box in boxes):
        raise RebnnError(
            f'every box of {folder} lies within the first pixel of its image. They are counted in pixels, not as '
            'shares of the width and height.'
        )
    splits = {split: _join_same(photos, notes) for split, photos in splits.items()}
    splits = _with_validation(splits, notes)
    splits = {split: _clean_all(photos, notes) for split, photos in splits.items()}
    if not any(not box.crowd for photo in splits['train'] for box in photo.boxes):
        raise RebnnError(f'no image of {folder} that is for training has a box, those of crowds not counted.')
    present = {box.name for photos in splits.values() for photo in photos for box in photo.boxes}
    classes = tuple(name for name in order if name in present)
    notes += [f'classes without any box are left out\t{name}' for name in order if name not in present]
    counts = {
        split: Counter(box.name for photo in photos for box in photo.boxes if not box.crowd)
        for split, photos in splits.items()
    }
    _look(splits, counts, classes, notes)
    return Annotated(folder, classes, splits, _join_notes(notes))


def _read(places: Places, named: dict[str, Path]) -> tuple[dict[str, list[Photo]], list[str]]:
    """The splits, and the names of the classes in their order, of whatever form there is."""
    folder = places.folder
    if any(path.suffix.lower() == '.csv' for path in named.values()):
        return read_csv(named, places)
    files = _coco_files(folder, named) | named
    xml, label = next(filter(_is_voc, visible(folder, '*.xml')), None), looks_like_yolo(folder, places)
    if files:
        _note_unread(places, xml, label)
        splits, order = _read_coco(files, places)
        return (_by_folder(splits, folder) if len(files) == 1 else splits), order
    described = yolo_file(folder)
    if described is not None:
        _note_unread(places, xml)
        return read_yolo(described, places)
    if xml is not None:
        _note_unread(places, label)
        return _read_voc(folder, places)
    if label is not None:
        names = yolo_names_file(folder)
        if names is not None:
            return read_yolo(names, places)
        raise RebnnError(
            f'{label} is a YOLO label file, and nothing names the classes: write {folder / "data.yaml"} with the '
            'lines train: (folder of images), val: (another) and names: [first, second], or a classes.txt with a '
            'name in each line.'
        )
    tables = csv_files(folder)
    if tables:
        return read_csv(tables, places)
    raise RebnnError(_nothing_read(folder))


def _note_unread(places: Places, *others: Path | None) -> None:
    """Note labels of a form that comes after the one that is read, such as corrected ones next to the old."""
    places.notes += [f'labels of another form are not read\t{path}' for path in others if path is not None]


def _is_voc(path: Path) -> bool:
    """Whether an XML file is one of VOC; a broken one is, so that it is named."""
    try:
        return _xml_root(path).tag == 'annotation'
    except (OSError, ElementTree.ParseError, ValueError, LookupError):
        return True


def _xml_root(path: Path) -> ElementTree.Element:
    """The root of an XML file; expat itself knows no encoding of several bytes, such as gb2312 of Chinese tools."""
    data = path.read_bytes()
    named = re.match(rb'<\?xml[^>]*encoding=["\']([\w-]+)', data)
    return ElementTree.fromstring(data.decode(named[1].decode()) if named else data)


def _nothing_read(folder: Path) -> str:
    """Say why a folder cannot be read, with the name of the form that it has where that is known."""
    known = (
        f"{folder} holds no annotations: neither a JSON file of COCO's form (images, annotations, categories), nor "
        'XML files of VOC, nor YOLO label files, nor a CSV file with a box in each row.'
    )
    for name, form in FILES.items():
        path = next(visible(folder, name), None)
        if path is not None:
            return f"{known} {path} looks like {form}: export it again in COCO's form."
    for path in sorted(visible(folder, '*.json'))[:LOOKED_AT]:
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            return f'{known} {path} cannot be read as JSON ({error}).'
        first = content[0] if isinstance(content, list) and content else content
        other = next((form for key, form in FORMS.items() if isinstance(first, dict) and key in first), None)
        if other is not None:
            return f"{known} {path} looks like {other}: export it in COCO's form, which that can write."
    return known


def as_coco(photos: Iterable[Photo], classes: Sequence[str]) -> dict[str, Any]:
    """The photos of a split in COCO's form."""
    numbers = {name: number for number, name in enumerate(classes, start=1)}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for photo in photos:
        images.append(dict(id=len(images) + 1, file_name=photo.file, width=photo.width, height=photo.height))
        for box in photo.boxes:
            annotations.append(
                dict(
                    id=len(annotations) + 1,
                    image_id=len(images),
                    category_id=numbers[box.name],
                    bbox=list(box[1:5]),
                    area=box.area if box.area > 0 else box.width * box.height,
                    iscrowd=int(box.crowd),
                )
            )
    categories = [dict(id=number, name=name) for name, number in numbers.items()]
    return dict(info=WRITTEN, images=images, annotations=annotations, categories=categories)


def _coco_files(folder: Path, named: Mapping[str, Path]) -> dict[str, Path]:
    """COCO's file for each split that is not named."""
    found: dict[str, list[Path]] = {}
    broken: list[RebnnError] = []
    for path in sorted(visible(folder, '*.json')):
        words = re.findall('[A-Z]?[a-z]+|[A-Z]+', path.stem)
        split = find_split(words) or split_of_folder(path, folder)
        if path in named.values() or split in named:
            continue
        try:
            content = json.loads(path.read_bytes())
            is_coco = isinstance(content, dict) and {'images', 'annotations', 'categories'} <= content.keys()
            if is_coco and content.get('info') != WRITTEN:
                found.setdefault(split, []).append(path)
        except (OSError, ValueError, RecursionError) as error:
            if split:
                fix = f'Copy or write it again, remove it, or name another: --{split} FILE.'
                broken.append(RebnnError(f'it cannot be read as JSON ({error}).', str(path), fix))
    if found and broken:  # else another file, or a share of the training images, would take its place
        raise broken[0]
    if 'train' in named:
        found.pop('', None)
    several = next((paths for paths in found.values() if len(paths) > 1), None)
    if several is not None:
        raise RebnnError(
            f'{several[0]} and {several[1]} could both be the annotations of one split. Name those to use: --train '
            'FILE --val FILE --test FILE.'
        )
    files = {split: paths[0] for split, paths in found.items()}
    if '' in files and 'train' in files:
        del files['']
    return {split or 'train': path for split, path in files.items()}


def _by_folder(splits: dict[str, list[Photo]], folder: Path) -> dict[str, list[Photo]]:
    """Group what one file lists by the image folders, if they say what is for training."""
    ((split, photos),) = splits.items()
    found: dict[str, list[Photo]] = {}
    for photo in photos:
        found.setdefault(split_of_folder(folder / photo.file, folder), []).append(photo)
    return found if split == 'train' and 'train' in found and '' not in found else splits


def _read_coco(files: Mapping[str, Path], places: Places) -> tuple[dict[str, list[Photo]], list[str]]:
    splits: dict[str, list[Photo]] = {}
    order: dict[str, None] = {}
    for split, path in files.items():
        wrong: list[str] = []
        try:
            content = json.loads(path.read_bytes())
            pairs = {(category['id'], str(category['name']).strip()) for category in content['categories']}
            if len(names := dict(pairs)) < len(pairs):
                wrong.append('two classes have one id, so boxes are mixed up')
            # Numbers first: some are written as texts.
            numbered = sorted(names, key=lambda number: (isinstance(number, str), number))
            in_order = places.one_each([names[number] for number in numbered])
            boxes: dict[Any, list[Box]] = {image['id']: [] for image in content['images']}
            numbers: dict[Any, str] = {}
            for image in content['images']:
                number, name = image['id'], image['file_name']
                if numbers.setdefault(number, name) != name:
                    wrong.append(
                        f'the images {numbers[number]} and {name} have one id, {number}, so boxes are mixed up'
                    )
            for entry in content['annotations']:
                if entry['image_id'] not in boxes:
                    wrong.append(f'annotation {entry.get("id")} is of image {entry["image_id"]}, which is not listed')
                elif entry['category_id'] not in names:
                    wrong.append(f'annotation {entry.get("id")} has the class {entry["category_id"]}, not in the list')
                elif len(entry.get('bbox') or ()) != 4:
                    wrong.append(f'annotation {entry.get("id")} has no box of four numbers')
                else:
                    crowd = bool(int(entry.get('iscrowd') or 0))  # some are written as texts
                    left, top, width, height = (float(side) for side in entry['bbox'])
                    wrong += find_box_faults(f'annotation {entry.get("id")}', left, top, width, height)
                    area = float(entry.get('area') or 0)
                    box = Box(names[entry['category_id']], left, top, width, height, crowd, area)
                    boxes[entry['image_id']].append(box)
            photos = splits.setdefault(split, [])
            for image in content['images']:
                file = places.find(image['file_name'], path.parent, split)
                if file is None:
                    wrong.append(places.explain_missing(image['file_name']))
                    continue
                size = int(image.get('width') or 0), int(image.get('height') or 0)
                photos.append(places.photo(file, size, boxes.pop(image['id'], []), wrong))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise RebnnError(f"{path} is not of COCO's form ({type(error).__name__}: {error}).") from None
        refuse_wrong(path, wrong)
        order.update(dict.fromkeys(in_order))
    return splits, list(order)


def _read_voc(folder: Path, places: Places) -> tuple[dict[str, list[Photo]], list[str]]:
    photos: dict[Path, Photo] = {}
    wrong: list[str] = []
    for path in sorted(visible(folder, '*.xml')):
        try:
            root = _xml_root(path)
            if root.tag != 'annotation':
                continue
            size = tuple(int(float(root.findtext(f'size/{side}') or 0)) for side in ('width', 'height'))
            boxes = []
            for item in root.iter('object'):
                left, top, right, bottom = (
                    float(item.findtext(f'bndbox/{side}') or 'nan') for side in ('xmin', 'ymin', 'xmax', 'ymax')
                )
                name = (item.findtext('name') or '').strip()
                wrong += find_box_faults(f'{path}: {name!r}', left, top, right - left, bottom - top)
                boxes.append(Box(name, left, top, right - left, bottom - top))
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            wrong.append(f'{path} is not a VOC XML file ({error})')
            continue
        named = (root.findtext('filename') or '').strip()
        # Where files were renamed, or all say the same, the image called like the file is its own.
        names = [*(f'{path.stem}{suffix}' for suffix in IMAGES), named]
        names = names[-1:] + names if PureWindowsPath(named).stem == path.stem else names
        split = split_of_folder(path, folder) or 'train'
        file = next((file for name in names if name and (file := places.find(name, path, split))), None)
        if file is None:
            wrong.append(f'{places.explain_missing(named or path.stem)}, for {path}')
            continue
        photos[path] = places.photo(file, (size[0], size[1]), boxes, wrong)
    refuse_wrong(folder, wrong)
    splits = _voc_lists(folder, photos, places.notes)
    if not splits:
        splits = by_folder(list(photos.values()), places, list(photos))
    return splits, sorted({box.name for photo in photos.values() for box in photo.boxes})


def _voc_lists(folder: Path, photos: Mapping[Path, Photo], notes: list[str]) -> dict[str, list[Photo]]:
    """The splits of ``ImageSets/Main``. Without a ``train.txt`` there the images of no other list are for training."""
    splits: dict[str, list[Photo]] = {}
    lists: dict[str, dict[Path, Path]] = {}  # by name and by the data set, as there are VOC2007 and VOC2012
    for path in sorted(visible(folder, '*.txt'), reverse=True):
        if path.parts[-3:-1] == ('ImageSets', 'Main'):
            lists.setdefault(path.stem.lower(), {})[path.parents[2]] = path
    for split, names in LISTS.items():
        for root, listed in next((lists[name] for name in names if name in lists), {}).items():
            by_stem: dict[str, list[Photo]] = {}
            inside = {path: photo for path, photo in photos.items() if path.is_relative_to(root)}
            for path, photo in (inside or photos).items():
                by_stem.setdefault(path.stem, []).append(photo)
            lines = lines_of(listed)
            found = {line: by_stem.get(line) or _in_folder(line, by_stem.get(Path(line).stem, [])) for line in lines}
            if lines and not any(found.values()):
                raise RebnnError(
                    f'{listed}: no line of it is the name of an XML file without its ending; the first is '
                    f"'{lines[0]}'."
                )
            lost = [line for line in found if not found[line]]
            notes += [f'lines of lists have no annotations\t{line} in {listed.name}' for line in lost]
            splits.setdefault(split, []).extend(photo for each in found.values() for photo in each)
    whole = splits.pop('trainval', None)
    if splits.get('train') is None and (splits or whole):
        held = {photo.file for each in splits.values() for photo in each}
        splits['train'] = [photo for photo in whole or photos.values() if photo.file not in held]
    used = {photo.file for each in splits.values() for photo in each}
    if splits:
        notes += [f'are in no list and not used\t{p.file}' for p in photos.values() if p.file not in used]
    return splits


def _join_same(photos: Sequence[Photo], notes: list[str]) -> list[Photo]:
    """Put the boxes of one image together, which two entries or files may hold."""
    found: dict[str, Photo] = {}
    for photo in photos:
        if photo.file in found:
            notes.append(f'images are listed twice, and their boxes put together\t{photo.file}')
            found[photo.file].boxes.extend(photo.boxes)
        else:
            found[photo.file] = photo
    return list(found.values())


def _in_folder(line: str, photos: list[Photo]) -> list[Photo]:
    """Those in the folder that a line names before the name of a file; all where none is."""
    return [photo for photo in photos if Path(photo.file).parent.name == Path(line).parent.name] or photos


def _with_validation(splits: dict[str, list[Photo]], notes: list[str]) -> dict[str, list[Photo]]:
    if 'train' not in splits:
        raise RebnnError(
            f'there are annotations of {" and ".join(splits)}, but none to train on. Name the file of those: '
            '--train FILE.'
        )
    for split in ('val', 'test'):
        if split in splits and not any(photo.boxes for photo in splits[split]):
            notes.append(f'no {split} image has a box, so they are not used')
            splits = {name: photos for name, photos in splits.items() if name != split}
    if splits.get('val'):
        return splits
    if splits.get('test'):
        notes.append('nothing is for validation alone: the test images are used for it')
        return {**splits, 'val': splits['test']}
    photos = sorted(splits['train'])
    if len(photos) < 2:
        raise RebnnError('two images are the least: some are trained on, others validated on.')
    random.Random(0).shuffle(photos)
    count = max(1, round(VALIDATION * len(photos)))
    chosen = _spare_photos(photos, count)
    if not any(photo.boxes for photo in chosen):
        chosen = _spare_photos([photo for photo in photos if photo.boxes], count)
    if not chosen:
        notes.append('each image has the only box of a class, so nothing is for validation but the training images')
        return {'train': sorted(photos), 'val': sorted(photos)}
    notes.append(f'no validation split found: {len(chosen)} of {len(photos)} images are held out, chosen by seed 0')
    held = {photo.file for photo in chosen}
    return {'train': sorted(photo for photo in photos if photo.file not in held), 'val': sorted(chosen)}


def _spare_photos(photos: Sequence[Photo], count: int) -> list[Photo]:
    """Take the first photos, at most so many, without which each class still has another image with a box of it."""
    left = Counter(name for photo in photos for name in _classes_of(photo))
    chosen: list[Photo] = []
    for photo in photos:
        if len(chosen) < count and all(left[name] > 1 for name in _classes_of(photo)):
            chosen.append(photo)
            left.subtract(_classes_of(photo))
    return chosen


def _classes_of(photo: Photo) -> set[str]:
    return {box.name for box in photo.boxes if not box.crowd}


def _clean_all(photos: Sequence[Photo], notes: list[str]) -> list[Photo]:
    """Clean the boxes of photos; a photo that loses all of its boxes is left out, as it is not a negative."""
    cleaned = [_clean_boxes(photo, notes) for photo in photos]
    lost = [after.file for before, after in zip(photos, cleaned, strict=True) if before.boxes and not after.boxes]
    notes += [f'images have lost all their boxes and are not used\t{file}' for file in lost]
    gone = set(lost)
    return [photo for photo in cleaned if photo.file not in gone]


def _clean_boxes(photo: Photo, notes: list[str]) -> Photo:
    kept: list[Box] = []
    for box in photo.boxes:
        left, top = max(box.left, 0), max(box.top, 0)
        right, bottom = min(box.left + box.width, photo.width), min(box.top + box.height, photo.height)
        if min(right - left, bottom - top) < 1:  # mmdet would leave them out and say nothing
            what = 'left out boxes less than a pixel wide or high inside their image'
            notes.append(f'{what}\t{box.name} in {photo.file}')
            continue
        inside = Box(box.name, left, top, right - left, bottom - top, box.crowd)
        if any(abs(a - b) > 1 for a, b in zip(inside[1:5], box[1:5], strict=True)):
            notes.append(f'cut boxes that reached beyond their image\t{box.name} in {photo.file}')
        if inside[1:5] == box[1:5]:
            inside = box
        if inside in kept:
            notes.append(f'left out boxes that were there twice\t{box.name} in {photo.file}')
            continue
        kept.append(inside)
    return photo._replace(boxes=kept)


def _look(
    splits: Mapping[str, Sequence[Photo]], counts: Mapping[str, Counter[str]], classes: Sequence[str], notes: list[str]
) -> None:
    """Note what is not a mistake but may surprise."""
    train = {photo.file for photo in splits['train']}
    notes += [f'are in train and in val\t{photo.file}' for photo in splits['val'] if photo.file in train]
    notes += [
        f'training images have no box: they are used as background, unless --no-negatives leaves them out\t{p.file}'
        for p in splits['train']
        if not p.boxes
    ]
    notes += [f'classes have no training boxes\t{name}' for name in classes if not counts['train'][name]]
    few = [name for name in classes if 0 < counts['train'][name] < FEW]
    if few:
        more = f' and {len(few) - 5} more' if len(few) > 5 else ''
        notes.append(f'classes with fewer than {FEW} training boxes: {", ".join(few[:5])}{more}')
    boxes = sum(counts.values(), Counter())
    for name in few:
        near = did_you_mean(name, [other for other in classes if boxes[other] >= FEW * boxes[name]])
        if near:
            notes.append(f'{name}: {boxes[name]} box{"" if boxes[name] == 1 else "es"}. {near}')


def _join_notes(notes: Sequence[str]) -> list[str]:
    """One sentence for each kind of note, with how many there are and the first."""
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kind, _, example = note.partition('\t')
        kinds.setdefault(kind, []).append(example)
    return [f'{kind} ({len(found)}, the first: {found[0]})' if found[0] else kind for kind, found in kinds.items()]
