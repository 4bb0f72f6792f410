"""The images that int8 layers are calibrated on: files that a user names, or those of the training set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.registry import DATASETS

from rebnn_mm.datasets.photo_places import visible
from rebnn_mm.deploy.image import read_image
from rebnn_mm.deploy.several import PICTURES
from rebnn_mm.utils.console import quiet
from rebnn_mm.utils.data_files import check_data, leaf_datasets

from ..errors import RebnnError
from .examples import Image, prepare_example

MOST = 100
"""Images of a folder, a list or a training set, spread over it: ranges hardly change with more."""


FEW = 10
"""Below so many images, ranges are those of single images."""

ROUNDING = 1e-5
"""Tolerance for the mean of a channel."""

NEIGHBOURS = 0.3
"""Correlation of neighbouring pixels up to which an image is taken for noise; photographs have 0.5 and more."""


def looks_like(image: Image) -> str:
    """Say what an image is that tells nothing of photographs: of one colour, or noise; empty for any other."""
    height, width = image.valid_size
    values = image.values[0, :, :height, :width].astype(np.float64)
    values -= values.mean((1, 2), keepdims=True)
    power = (values[:, :, :-1] ** 2).sum()
    if np.abs(values).max(initial=0) <= ROUNDING:
        return 'one colour'
    return 'noise' if (values[:, :, :-1] * values[:, :, 1:]).sum() < NEIGHBOURS * power else ''


def how_little(looks: Sequence[str]) -> str:
    """Say in one sentence that calibration images tell little; empty if they are enough."""
    plain = Counter(look for look in looks if look)
    if len(looks) >= FEW and 2 * plain.total() <= len(looks):
        return ''
    count = f'{len(looks)} image{"s" * (len(looks) != 1)}{" only" * (len(looks) < FEW)}'
    kinds = ' and '.join(f'{number} of {look}' for look, number in plain.items())
    return (
        f'int8 was calibrated on {count}{f", {kinds}" if kinds else ""}: values of other images may lie outside of '
        'these ranges. Name images like those that the file will see, tens of them.'
    )


class CalibrationImages(Sequence[Image]):
    """Images that are read and prepared when they are asked for, so that one lies in memory at a time."""

    def __init__(self, steps: Mapping[str, Any], images: Sequence[str | Path | np.ndarray]) -> None:
        self.steps = steps
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Any) -> Any:
        image = self.images[index]
        return prepare_example(self.steps, image if isinstance(image, np.ndarray) else read_image(image))


def image_files(given: Sequence[str]) -> list[Path]:
    """The files that a user means: files, folders with all below them, and lists, text files of one path a line.

    A path in a list is relative to the list. Of more than :data:`MOST` files in a folder or a list some are taken.
    """
    files: list[Path] = []
    for path in map(Path, given):
        if path.is_dir():
            found = sorted(file for file in visible(path, '*') if file.suffix.lower() in PICTURES and file.is_file())
        elif path.suffix == '.txt' and path.is_file():
            lines = path.read_text(encoding='utf-8-sig', errors='surrogateescape').splitlines()
            found = [path.parent / line.strip() for line in lines if line.strip()]
        else:
            found = [path]
        if not found:
            raise RebnnError(f'int8: there is no image in {path}.')
        files += spread(found)
    gone = next((file for file in files if not file.is_file()), None)
    if gone is not None:
        raise RebnnError(f'int8: no image at {gone}.')
    return files


def training_images(cfg: Config) -> list[Path | np.ndarray]:
    """Images of a config's training set before any preparation: their files, or arrays where the set holds them."""
    loader = cfg.get('train_dataloader')
    if loader is None:
        raise RebnnError('int8: the config has no train_dataloader to take images from; name images to calibrate on.')
    try:
        check_data(cfg, ['train'])
        return dataset_images(loader['dataset'])
    except RebnnError as error:
        raise RebnnError(str(error), 'int8', 'Or name images to calibrate on.') from None


def dataset_images(dataset: Mapping[str, Any], at_most: int = MOST) -> list[Path | np.ndarray]:
    """Images of a data set before any preparation, spread over it: their files, or arrays where it holds them."""
    images: list[Path | np.ndarray] = []
    for _, leaf in leaf_datasets(dataset, 'dataset'):
        with quiet():  # the COCO reader prints what it does
            built = DATASETS.build(leaf)
        for index in spread(range(len(built)), at_most):
            about = built.get_data_info(index)
            image = about.get('img_path') if about.get('img') is None else about['img']
            if image is None:
                raise RebnnError(f'{type(built).__name__} names no image files.')
            images.append(image if isinstance(image, np.ndarray) else Path(image))
    if not images:
        raise RebnnError(f'{dataset.get("type")} is empty: {dataset.get("ann_file") or dataset.get("data_root")}.')
    return images


def spread(items: Sequence[Any], at_most: int = MOST) -> list[Any]:
    """So many of a sequence, at equal distances; all if there are no more."""
    count = min(len(items), at_most)
    return [items[index * len(items) // count] for index in range(count)]
