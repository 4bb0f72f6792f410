"""Cut a small, redistributable COCO 2017 sample out of a bigger copy: unmodified JPEGs, annotations and licences.

    python tools/dataset_converters/cut_coco_sample.py --src data/coco --dest demo/coco_sample

The images with the largest share of medium and large objects are taken first, because a short demonstration can learn
those. COCO keeps a Flickr licence per image; only the licences given by ``--licenses`` are used.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

from rebnn_mm.errors import CommandParser, RebnnError, report_errors

MEDIUM_AREA = 32**2  # COCO's border between small and medium objects, in pixels
MANY_OBJECTS = 6  # above this number, more objects do not make an image a better example

KEYS = {
    'images': ('id', 'file_name', 'license', 'flickr_url', 'coco_url'),
    'annotations': ('image_id', 'area', 'iscrowd'),
    'licenses': ('id', 'name', 'url'),
}
"""What is read of each entry of a part of COCO's file."""

LICENSES_HEAD = """# Licences of this sample

{number} images of COCO 2017 (https://cocodataset.org), unmodified, byte for byte as COCO distributes them. Each keeps
the licence its photographer gave it on Flickr. COCO does not record the photographers' names; the photo page does.
The annotations (`annotations/*.json`) are an unmodified selection of those of the COCO Consortium, licensed under
[CC BY 4.0](https://creativecommons.org/licenses/by/4.0/).

The same `license`, `flickr_url` and `coco_url` are in the JSON files for each image.

| file | licence | photo page | Flickr file | COCO file |
|---|---|---|---|---|
"""


def load_split(src: Path, split: str) -> dict[str, Any]:
    """Read ``annotations/instances_<split>.json`` under ``src``.

    Raises:
        FileNotFoundError: no such file; the message names the expected layout.
        ValueError: it lacks what this tool reads of COCO's.
    """
    path = src / 'annotations' / f'instances_{split}.json'
    if not path.is_file():
        raise FileNotFoundError(
            f'no annotations at {path}. --src must have the layout of COCO 2017: '
            f'annotations/instances_{split}.json and {split}/*.jpg.'
        )
    try:
        coco: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f'{path} is not JSON ({error}).') from error
    for part, keys in KEYS.items():
        if not isinstance(coco, dict) or not isinstance(coco.get(part), list):
            raise ValueError(f'{path} has no list {part!r}.')
        missing = next((key for entry in coco[part] for key in keys if key not in entry), None)
        if missing:
            raise ValueError(f'{path}: one of its {part} has no {missing!r}.')
    return coco


def select_images(
    coco: dict[str, Any], image_dir: Path, licenses: set[int], number: int, max_kb: float
) -> list[dict[str, Any]]:
    """Choose the ``number`` images with the largest share of medium and large objects.

    Args:
        coco: content of an instances json.
        image_dir: folder of its images.
        licenses: COCO licence ids that may be used.
        number: how many images.
        max_kb: largest file to take, in kB (1000 bytes).

    Returns:
        Entries of ``coco['images']``, sorted by id.

    Raises:
        ValueError: fewer than ``number`` images qualify.
    """
    objects = defaultdict(list)
    for annotation in coco['annotations']:
        objects[annotation['image_id']].append(annotation)
    ranked = []
    for image in coco['images']:
        every = objects[image['id']]
        visible = [a for a in every if a['area'] >= MEDIUM_AREA and not a['iscrowd']]
        path = image_dir / image['file_name']
        if image['license'] not in licenses or len(visible) < 2 or not path.is_file():
            continue
        if path.stat().st_size <= 1000 * max_kb:
            score = len(visible) / len(every) * min(len(visible), MANY_OBJECTS)
            ranked.append((-score, image['id'], image))
    if number < 1:
        raise ValueError(f'{number} images are wanted; it must be at least 1.')
    if len(ranked) < number:
        raise ValueError(
            f'{len(ranked)} images in {image_dir} have a licence in {sorted(licenses)}, two medium or large '
            f'objects and at most {max_kb:g} kB, but {number} are wanted. Allow more with --licenses or '
            '--max-kb, or want fewer.'
        )
    chosen = [image for *_, image in sorted(ranked, key=lambda entry: entry[:2])[:number]]
    return sorted(chosen, key=lambda image: image['id'])


def write_split(coco: dict[str, Any], images: list[dict[str, Any]], src: Path, dest: Path, split: str) -> None:
    """Copy the images of one split and write its json, which keeps ``info``, ``licenses`` and all categories."""
    (dest / split).mkdir(parents=True, exist_ok=True)
    (dest / 'annotations').mkdir(exist_ok=True)
    for image in images:
        shutil.copyfile(src / split / image['file_name'], dest / split / image['file_name'])
    kept = {image['id'] for image in images}
    annotations = [a for a in coco['annotations'] if a['image_id'] in kept]
    content = {**coco, 'images': images, 'annotations': annotations}
    (dest / 'annotations' / f'instances_{split}.json').write_text(json.dumps(content, separators=(',', ':')) + '\n')


def license_rows(coco: dict[str, Any], images: list[dict[str, Any]], split: str) -> list[str]:
    """One Markdown table row per image: file, licence, photo page, Flickr file, COCO file.

    Raises:
        ValueError: an image has a licence that the file does not list.
    """
    licenses = {entry['id']: f'[{entry["name"]}]({entry["url"]})' for entry in coco['licenses']}
    rows = []
    for image in images:
        if image['license'] not in licenses:
            raise ValueError(f'{image["file_name"]} has licence {image["license"]}, which the file does not list.')
        photo = image['flickr_url'].rsplit('/', 1)[-1].split('_')[0]
        rows.append(
            f'| {split}/{image["file_name"]} | {licenses[image["license"]]} '
            f'| [{photo}](https://www.flickr.com/photo.gne?id={photo}) '
            f'| [Flickr]({image["flickr_url"]}) | [COCO]({image["coco_url"]}) |'
        )
    return rows


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('--src', type=Path, default=Path('data/coco'), help='copy of COCO 2017 to cut from')
    parser.add_argument('--dest', type=Path, required=True, help='new folder for the sample')
    parser.add_argument(
        '--licenses',
        type=int,
        nargs='+',
        default=[4, 5, 7],
        help='COCO licence ids to use; default: 4 (BY), 5 (BY-SA), 7 (no known restrictions)',
    )
    parser.add_argument('--num-train', type=int, default=32)
    parser.add_argument('--num-val', type=int, default=16)
    parser.add_argument('--max-kb', type=float, default=220, help='largest image file to take, in kB')
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    if args.dest.is_file() or (args.dest.exists() and any(args.dest.iterdir())):
        raise RebnnError(f'{args.dest} is not an empty folder. Name a new one with --dest, or empty this one first.')
    try:
        splits = [('train2017', args.num_train), ('val2017', args.num_val)]
        cuts = []
        for split, number in splits:
            coco = load_split(args.src, split)
            cuts.append((split, coco, select_images(coco, args.src / split, set(args.licenses), number, args.max_kb)))
        rows = [row for split, coco, images in cuts for row in license_rows(coco, images, split)]
        for split, coco, images in cuts:
            write_split(coco, images, args.src, args.dest, split)
        (args.dest / 'LICENSES.md').write_text(LICENSES_HEAD.format(number=len(rows)) + '\n'.join(rows) + '\n')
    except ValueError as error:
        raise RebnnError(str(error)) from error
    size = sum(path.stat().st_size for path in args.dest.rglob('*') if path.is_file())
    print(f'{args.dest}: {args.num_train} training and {args.num_val} validation images, {size / 1e6:.1f} MB')


if __name__ == '__main__':
    main()
