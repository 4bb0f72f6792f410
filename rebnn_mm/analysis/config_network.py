"""Builds the network of a config without its weights, and finds the size of the images or texts it predicts on."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NamedTuple

from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.command_line import check_sections
from rebnn_mm.utils.data_files import leaf_datasets, type_name

LOADERS = {'test_dataloader': 'test pipeline', 'val_dataloader': 'val pipeline', 'train_dataloader': 'train pipeline'}


class InputShape(NamedTuple):
    """Height and width of the network's input, and where they are from."""

    height: int
    width: int
    source: str


def build_network(cfg: Config) -> nn.Module:
    """Build the model of a config of mmdet, mmpretrain or mmengine before initialisation; weights are not read."""
    check_sections(cfg, ['model'])
    model = copy.deepcopy(cfg.model)
    if text_length(cfg) is not None:
        model.update(pretrained=False)  # its encoder's weights are not part of the network
    if cfg.get('data_preprocessor') is not None:
        model.setdefault('data_preprocessor', cfg.data_preprocessor)
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope') or 'mmengine'):
        return MODELS.build(model)


def input_shape(cfg: Config) -> InputShape:
    """The size of the images in the first pipeline that says one: of testing, validation or training.

    Those of CIFAR have 32 x 32 pixels where none does. Where the ratio is kept an image may be smaller; its largest
    size counts. ``data_preprocessor.pad_size_divisor`` pads it further, and the network computes on the padding.
    """
    for loader, called in LOADERS.items():
        height, width, transforms = _final_size(_pipeline(cfg.get(loader)))
        if height and width:
            source = f'{called}: {", ".join(transforms)}'
            preprocessor = cfg.model.get('data_preprocessor') or cfg.get('data_preprocessor') or {}
            divisor = preprocessor.get('pad_size_divisor') or 1
            padded = -(-height // divisor) * divisor, -(-width // divisor) * divisor
            if padded != (height, width):
                source += f' to {height}x{width}; padded to multiples of {divisor} by data_preprocessor'
            return InputShape(*padded, source)
    kinds = (type_name(leaf) for loader in LOADERS for _, leaf in leaf_datasets(_dataset(cfg.get(loader)), ''))
    cifar = next((kind for kind in kinds if kind.startswith('CIFAR')), None)
    if cifar is not None:
        return InputShape(32, 32, f'images of {cifar}')
    raise RebnnError(
        f'{cfg.filename}: no data pipeline of the config says the size of an image. Give it: --shape HEIGHT WIDTH'
    )


def text_length(cfg: Config) -> tuple[int, str] | None:
    """The longest text in tokens and where that is from; None for a config of images."""
    for loader, called in LOADERS.items():
        for step in _pipeline(cfg.get(loader)):
            if type_name(step) == 'TokenizeText':
                return int(step['max_length']), f'{called}: TokenizeText'
    return None


def _dataset(loader: Any) -> Any:
    return (loader or {}).get('dataset') or {}


def _pipeline(loader: Any) -> Iterable[dict[str, Any]]:
    dataset = _dataset(loader)
    while 'pipeline' not in dataset and ('dataset' in dataset or 'datasets' in dataset):
        dataset = dataset.get('dataset') or dataset['datasets'][0]
    return [step for step in dataset.get('pipeline') or [] if isinstance(step, dict)]


def _final_size(pipeline: Iterable[dict[str, Any]]) -> tuple[int, int, list[str]]:
    """Height, width (0 if unknown) and the transforms that made them."""
    width, height, used = 0, 0, []
    for step in pipeline:
        name = type_name(step)
        before = width, height
        if 'Crop' in name and step.get('crop_size'):
            width, height = _pair(step['crop_size'])
        elif ('Resize' in name or 'Crop' in name) and isinstance(step.get('scale'), int | tuple | list):
            width, height = _pair(step['scale'])
        elif 'Resize' in name and step.get('width') and step.get('height'):
            width, height = step['width'], step['height']
        elif name == 'Pad' and step.get('size'):
            width, height = _pair(step['size'])
        elif name == 'Pad' and step.get('pad_to_square'):
            width = height = max(width, height)
        elif name == 'Pad' and step.get('size_divisor'):
            divisor = step['size_divisor']
            width, height = -(-width // divisor) * divisor, -(-height // divisor) * divisor
        else:
            continue
        if (width, height) != before:
            used.append(name)
    return height, width, used


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Width and height; of a range of sizes the largest."""
    if not isinstance(size, int) and isinstance(size[0], tuple | list):
        size = max(size)
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
