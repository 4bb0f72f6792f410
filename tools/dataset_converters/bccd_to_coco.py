"""Turn the blood-cell set BCCD, which comes with Pascal VOC annotations, into COCO's format.

    git clone https://github.com/Shenggan/BCCD_Dataset
    python tools/dataset_converters/bccd_to_coco.py --src BCCD_Dataset/BCCD --dest data/bccd

Reads ImageSets/Main/{train,val,test}.txt, Annotations/*.xml and JPEGImages/*.jpg (MIT licence), and writes
annotations/instances_{train,val,test}.json and images/*.jpg. Boxes without area are left out and named.
"""

from __future__ import annotations

import json
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import CommandParser, RebnnError, report_errors

CLASSES = ('RBC', 'WBC', 'Platelets')
SPLITS = ('train', 'val', 'test')


def read_boxes(path: Path) -> tuple[int, int, list[tuple[str, list[int]]]]:
    """Width, height and boxes (class, [x, y, width, height] in pixels) of one VOC file.

    Raises:
        ValueError: it is not such a file, or has a class that BCCD does not have; the message names it.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f'{path} is not XML ({error}).') from error

    def pixels(element: ElementTree.Element, *keys: str) -> list[int]:
        texts = [element.findtext(key) for key in keys]
        try:
            return [int(text or '') for text in texts]
        except ValueError as error:
            found = ', '.join(f'{key} {text}' for key, text in zip(keys, texts, strict=True))
            raise ValueError(f'{path}: whole numbers are missing in an {element.tag} ({found}).') from error

    boxes = []
    for item in root.iter('object'):
        name = item.findtext('name', '')
        if name not in CLASSES:
            raise ValueError(f'{path} holds class {name!r}; BCCD has {", ".join(CLASSES)}.')
        left, top, right, bottom = pixels(item, *(f'bndbox/{side}' for side in ('xmin', 'ymin', 'xmax', 'ymax')))
        boxes.append((name, [left, top, right - left, bottom - top]))
    width, height = pixels(root, 'size/width', 'size/height')
    return width, height, boxes


def convert_split(src: Path, names: list[str]) -> dict[str, Any]:
    """The COCO dictionary of the images named in one ImageSets file.

    Raises:
        ValueError, OSError: a file that is not there, or not as it should be.
    """
    if not names:
        raise ValueError('a list in ImageSets/Main is empty.')
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, name in enumerate(names, start=1):
        if not (src / 'JPEGImages' / f'{name}.jpg').is_file():
            raise ValueError(f'no image at {src / "JPEGImages" / name}.jpg.')
        width, height, boxes = read_boxes(src / 'Annotations' / f'{name}.xml')
        images.append(dict(id=image_id, file_name=f'{name}.jpg', width=width, height=height))
        for label, box in boxes:
            if box[2] <= 0 or box[3] <= 0:
                print(f'{name}: left out a {label} box without area', file=sys.stderr)
                continue
            category = CLASSES.index(label) + 1
            annotations.append(
                dict(
                    id=len(annotations) + 1,
                    image_id=image_id,
                    category_id=category,
                    bbox=box,
                    area=box[2] * box[3],
                    iscrowd=0,
                    segmentation=[],
                )
            )
    categories = [dict(id=index, name=name, supercategory='cell') for index, name in enumerate(CLASSES, start=1)]
    info = dict(description='BCCD (Shenggan/BCCD_Dataset, MIT), converted from VOC XML')
    return dict(info=info, licenses=[], images=images, annotations=annotations, categories=categories)


@report_errors
def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument('--src', type=Path, required=True, help='folder BCCD of a clone of BCCD_Dataset')
    parser.add_argument('--dest', type=Path, default=Path('data/bccd'), help='folder to write; default: data/bccd')
    args = parser.parse_args()
    lists = {split: args.src / 'ImageSets' / 'Main' / f'{split}.txt' for split in SPLITS}
    missing = [str(path) for path in lists.values() if not path.is_file()]
    if missing:
        raise RebnnError(f'no {missing[0]}. --src must be the folder BCCD of a clone of BCCD_Dataset.')
    try:
        converted = {split: convert_split(args.src, path.read_text().split()) for split, path in lists.items()}
        (args.dest / 'images').mkdir(parents=True, exist_ok=True)
        for image in (image for coco in converted.values() for image in coco['images']):
            shutil.copyfile(args.src / 'JPEGImages' / image['file_name'], args.dest / 'images' / image['file_name'])
        for split, coco in converted.items():
            with whole_file(args.dest / 'annotations' / f'instances_{split}.json') as part:
                part.write_text(json.dumps(coco))
            print(f'{split}: {len(coco["images"])} images, {len(coco["annotations"])} boxes')
    except ValueError as problem:
        raise RebnnError(str(problem)) from problem


if __name__ == '__main__':
    main()
