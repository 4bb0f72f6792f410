"""Turn CIFAR-10 from npz chunks of WebP strips into the layout of its python archive.

    python tools/dataset_converters/npz_webp_to_cifar10.py --src cifar10_chunks --dest data/cifar10

Reads train_*.npz and test_*.npz, in the order of their names, and meta.json with the class names. A chunk holds
`strips` (lossless WebP files one after the other, each a column of 32x32 images), `offsets` (where each begins, and
the end of the last) and `labels`. Writes cifar-10-batches-py/{data_batch_1..5,test_batch,batches.meta}, with the
images in the order of the chunks.
"""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import cv2
import numpy as np

from rebnn_mm.datasets.cifar10 import FOLDER
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import CommandParser, RebnnError, report_errors

BATCH_SIZE = 10_000


def read_chunk(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 32, 32, 3) in RGB order and labels (N,) of one chunk.

    Raises:
        ValueError: it is not such a chunk, a strip cannot be decoded, or there are not as many images as labels.
    """
    try:
        with np.load(path) as chunk:
            strips, offsets, labels = chunk['strips'].tobytes(), chunk['offsets'], chunk['labels']
    except (KeyError, TypeError, ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f'{path} is not a chunk with strips, offsets and labels ({error}).') from error
    images = []
    for begin, end in itertools.pairwise(offsets.tolist()):
        strip = cv2.imdecode(np.frombuffer(strips[begin:end], np.uint8), cv2.IMREAD_COLOR)
        if strip is None:
            raise ValueError(f'{path}: the strip at byte {begin} is not an image that OpenCV reads.')
        if strip.shape[1] != 32 or strip.shape[0] % 32:
            raise ValueError(f'{path}: the strip at byte {begin} is not a column of 32x32 images: {strip.shape[:2]}.')
        images.append(strip[:, :, ::-1].reshape(-1, 32, 32, 3))
    if not images:
        raise ValueError(f'{path} holds no strips.')
    pixels = np.concatenate(images)
    if len(pixels) != len(labels):
        raise ValueError(f'{path} holds {len(pixels)} images and {len(labels)} labels; both must be as many.')
    return pixels, labels


def read_split(src: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of all chunks of a split.

    Raises:
        ValueError: no chunk, or one that cannot be read.
    """
    paths = sorted(src.glob(f'{split}_*.npz'))
    if not paths:
        raise ValueError(f'no {src}/{split}_*.npz. --src must be the folder with the chunks and meta.json.')
    chunks = [read_chunk(path) for path in paths]
    return np.concatenate([images for images, _ in chunks]), np.concatenate([labels for _, labels in chunks])


def read_classes(path: Path) -> list[str]:
    """The names of the classes.

    Raises:
        ValueError, OSError: there is no such file, or it has no list of them.
    """
    try:
        classes = json.loads(path.read_text())['classes']
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{path} has no classes ({error}).') from error
    if not isinstance(classes, list):
        raise ValueError(f'{path}: classes has to be a list of names.')
    return classes


def batches(split: str, images: np.ndarray, labels: np.ndarray) -> dict[str, dict[str, Any]]:
    """File name and content of the archive's batches: one row per image, its red, green and blue plane."""
    room = BATCH_SIZE * (1 if split == 'test' else 5)
    if len(images) > room:
        raise ValueError(f'{split}: {len(images)} images, and the layout has room for {room}. Take some chunks away.')
    rows = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)
    parts = {}
    for number, begin in enumerate(range(0, len(rows), BATCH_SIZE), start=1):
        name = 'test_batch' if split == 'test' else f'data_batch_{number}'
        kept = slice(begin, begin + BATCH_SIZE)
        parts[name] = dict(batch_label=name, data=rows[kept], labels=labels[kept].tolist())
    return parts


@report_errors
def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument('--src', type=Path, required=True, help='folder with the chunks and meta.json')
    parser.add_argument(
        '--dest', type=Path, default=Path('data/cifar10'), help=f'folder to write {FOLDER} to; default: data/cifar10'
    )
    args = parser.parse_args()
    try:
        splits = {split: read_split(args.src, split) for split in ('train', 'test')}
        classes = read_classes(args.src / 'meta.json')
        for split, (_, labels) in splits.items():
            if labels.min() < 0 or labels.max() >= len(classes):
                raise ValueError(f'{split}: labels go to {labels.max()}, and meta.json has {len(classes)} classes.')
        parts = {name: part for split, loaded in splits.items() for name, part in batches(split, *loaded).items()}
        files: dict[str, dict[str, Any]] = {'batches.meta': dict(label_names=classes, num_vis=3072), **parts}
        for name, content in files.items():
            with whole_file(args.dest / FOLDER / name) as part:
                part.write_bytes(pickle.dumps(content, protocol=2))
    except ValueError as problem:
        raise RebnnError(str(problem)) from problem
    for split, (images, labels) in splits.items():
        print(f'{split}: {len(images)} images, {len(np.unique(labels))} classes')


if __name__ == '__main__':
    main()
