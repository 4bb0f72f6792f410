"""Data to train a few steps on where a config's own is not at hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.structures import BaseDataElement
from torch.utils.data import Dataset

from rebnn_mm.utils.data_files import leaf_datasets

from ..datasets.glue_tasks import GLUE_TASKS
from ..errors import RebnnError
from .config_network import input_shape, text_length

ANNOTATIONS, IMAGES = 'annotations/instances_train2017.json', 'train2017'
"""Folder of the sample's training images."""

SMALLEST = 16
"""An object that is narrower or lower, in pixels, is not an image for a classifier."""

TEXTS, WORDS = 2048, (8, 60)
"""How many made-up texts, and their shortest and longest length."""


class OfLength(Dataset):
    """A data set that says another length; its items are repeated or cut.

    So an epoch is as long as that of the real data, and whatever counts epochs does as in real training.
    """

    def __init__(self, dataset: Any, length: int) -> None:
        self.dataset, self.length = dataset, length
        if hasattr(dataset, '__getitems__'):  # then its collate function expects whole batches
            self.__getitems__ = lambda indices: dataset.__getitems__([index % len(dataset) for index in indices])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index % len(self.dataset)]

    def __deepcopy__(self, memo: Any) -> OfLength:
        return self  # mmengine copies all that it builds a loader from

    def get_data_info(self, index: int) -> Any:
        """Attributes that samplers read of an item without loading it."""
        return self.dataset.get_data_info(index % len(self.dataset))


def find_published_length(cfg: Config) -> tuple[int, str] | None:
    """Find the number of training images or texts of a well-known data set, and its name; None for any other."""
    known = [_find_published(leaf) for _, leaf in leaf_datasets(cfg.train_dataloader.dataset, '')]
    if not known or None in known:
        return None
    found = [entry for entry in known if entry is not None]
    return sum(length for length, _ in found), ' and '.join(dict.fromkeys(name for _, name in found))


def _find_published(dataset: Mapping[str, Any]) -> tuple[int, str] | None:
    kind = str(dataset.get('type')).rpartition('.')[2]
    file, split = str(dataset.get('ann_file', '')), dataset.get('split', 'train')
    if kind == 'CocoDataset' and 'train2017' in file:
        length, name = 117_266, 'COCO train2017, images with objects'
    elif kind == 'VOCDataset' and file.endswith('trainval.txt'):
        length, name = (5_011, 'VOC 2007 trainval') if 'VOC2007' in file else (11_540, 'VOC 2012 trainval')
    elif kind == 'ImageNet' and split in ('', 'train'):
        length, name = 1_281_167, 'ImageNet train'
    elif kind.startswith('CIFAR10') and kind != 'CIFAR100' and split == 'train':
        length, name = 50_000, 'CIFAR-10 train'
    elif kind == 'GLUEDataset':
        task = GLUE_TASKS[dataset['task']]
        length, name = task.train_rows, f'{task.folder} train'
    else:
        return None
    kept = dataset.get('indices')
    return (length if kept is None else min(length, kept if isinstance(kept, int) else len(kept))), name


def stand_in(cfg: Config, sample: Path) -> tuple[Sized, str]:
    """Data that a config's model can be trained on, and what it is.

    - Detector: the sample's training images through the config's own pipeline; an object of a class that the model
      has not is given one that it has.
    - Classifier: the objects of these images, cut out, with their kind as class.
    - Text classifier: rows of random tokens whose label says which part of the vocabulary is in the majority.
    """
    if text_length(cfg) is not None:
        return MadeUpTexts(cfg.model.get('num_labels', 2), text_length(cfg)[0]), 'made-up rows of random tokens'  # type: ignore[index]
    if not (sample / ANNOTATIONS).is_file():
        raise RebnnError(
            f'no sample images at {sample}. They come with a clone of the project; run this inside one, or have the '
            "config's own data where it says and use --data config."
        )
    classes = class_count(cfg.model)
    _, innermost = next(leaf_datasets(cfg.train_dataloader.dataset, ''))
    pipeline = copy.deepcopy(list(innermost.get('pipeline') or [dict(type='PackInputs')]))
    heads = {'bbox_head', 'roi_head'} & set(cfg.model)
    if heads:
        return _sample_images(sample, classes, pipeline), 'demo/coco_sample'
    if 'head' in cfg.model:
        return SampleObjects(sample, classes, pipeline, cfg), 'objects cut out of demo/coco_sample'
    raise RebnnError(
        f'{cfg.filename}: its model is neither a detector, nor a classifier, so there is nothing that stands in for '
        'its data. Have them where the config says.'
    )


def class_count(model: Any) -> int:
    """The number of classes of a detector or classifier, from the config of its head."""
    counts = list(_class_counts({key: model[key] for key in ('bbox_head', 'roi_head', 'head') if key in model}))
    return min(counts, default=1)


def _class_counts(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        if isinstance(value.get('num_classes'), int):
            yield value['num_classes']
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _class_counts(inner)


def _sample_images(sample: Path, classes: int, pipeline: list[Any]) -> Sized:
    from mmdet.datasets import CocoDataset

    class SampleImages(CocoDataset):
        def parse_data_info(self, raw_data_info: dict[str, Any]) -> Any:
            info = super().parse_data_info(raw_data_info)
            for instance in info['instances']:
                instance['bbox_label'] %= classes
            return info

    return SampleImages(
        data_root=str(sample),
        ann_file=ANNOTATIONS,
        data_prefix=dict(img=IMAGES),
        filter_cfg=dict(filter_empty_gt=True),
        pipeline=pipeline,
    )


class SampleObjects(Dataset):
    """The objects of the sample's training images as images of a classifier."""

    def __init__(self, sample: Path, classes: int, pipeline: list[Any], cfg: Config) -> None:
        content = json.loads((sample / ANNOTATIONS).read_text())
        files = {image['id']: sample / IMAGES / image['file_name'] for image in content['images']}
        kinds = {category['id']: number for number, category in enumerate(content['categories'])}
        self.objects = [
            (files[entry['image_id']], entry['bbox'], kinds[entry['category_id']] % classes)
            for entry in content['annotations']
            if min(entry['bbox'][2:]) >= SMALLEST and not entry.get('iscrowd')
        ]
        without_loading = [step for step in pipeline if 'LoadImage' not in str(step['type'])]
        self.size = input_shape(cfg)[:2] if len(without_loading) == len(pipeline) else None
        self.pipeline = Compose(without_loading)

    def __len__(self) -> int:
        return len(self.objects)

    def __getitem__(self, index: int) -> Any:
        import mmcv

        file, (x, y, width, height), label = self.objects[index]
        image = mmcv.imread(file)[int(y) : int(y + height), int(x) : int(x + width)]
        if self.size is not None:
            image = mmcv.imresize(image, self.size[::-1])
        shape = image.shape[:2]
        return self.pipeline(
            dict(img=image, img_path=str(file), img_shape=shape, ori_shape=shape, gt_label=label, sample_idx=index)
        )


class MadeUpTexts(Dataset):
    """Texts of random tokens, each mostly from one of as many parts of the vocabulary as there are labels.

    Args:
        labels: number of classes; 1 is a regression, to the share of the first of two parts.
        longest: tokens of the longest text, special ones included.
    """

    START, END = 101, 102
    """The special tokens of BERT's vocabulary."""

    FIRST, LAST = 1000, 30000
    """The tokens that texts are made of; before them BERT has single characters and unused ones."""

    def __init__(self, labels: int, longest: int) -> None:
        self.labels, self.longest = labels, longest

    def __len__(self) -> int:
        return TEXTS

    def __getitem__(self, index: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(index)
        shortest, longest = WORDS
        words = int(torch.randint(shortest, longest, (1,), generator=generator))
        parts = max(self.labels, 2)
        label = int(torch.randint(parts, (1,), generator=generator))
        elsewhere = torch.rand(words, generator=generator) < 0.4
        part = torch.where(elsewhere, torch.randint(parts, (words,), generator=generator), label)
        size = (self.LAST - self.FIRST) // parts
        tokens = self.FIRST + part * size + torch.randint(size, (words,), generator=generator)
        ids = torch.tensor([self.START, *tokens[: self.longest - 2].tolist(), self.END])
        sample = BaseDataElement(metainfo=dict(sample_idx=index, split=''))
        sample.gt_label = torch.tensor(float((part == 0).float().mean()) if self.labels == 1 else label)
        return dict(
            inputs=dict(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids)),
            padding=dict(input_ids=0, attention_mask=0, token_type_ids=0, side='right'),
            data_samples=sample,
        )
