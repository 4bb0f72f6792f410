"""Data and weights to train a few steps with where a config's own are not at hand."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.hub import get_config
from mmengine.registry import DATASETS
from mmengine.runner import CheckpointLoader
from mmengine.structures import BaseDataElement
from torch.utils.data import Dataset

from rebnn_mm.analysis.config_network import input_shape, text_length
from rebnn_mm.analysis.flip_measurement import OfLength, counts_epochs
from rebnn_mm.datasets.glue_tasks import GLUE_TASKS
from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.data_files import leaf_datasets
from rebnn_mm.utils.encoders import check_encoders, encoder_names

RANDOM = dict(type='Kaiming', layer='Conv2d', distribution='normal')
"""How a teacher whose weights are not at hand begins."""

WHOLE_BATCH = 'rebnn_whole_batch'
"""The collate function of data sets that make a batch at once."""

ENCODER_SIZES = {
    'minilm': dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
    'bert_base': {},
}
"""Stand-ins for missing encoders, by a part of their path; BERT's own default is the base size."""

ANNOTATIONS, IMAGES = 'annotations/instances_train2017.json', 'train2017'
"""Folder of the sample's training images."""

SMALLEST = 16
"""An object that is narrower or lower, in pixels, is not an image for a classifier."""

TEXTS, WORDS = 2048, (8, 60)
"""How many made-up texts, and their shortest and longest length."""


@DATASETS.register_module()
class Repeated(OfLength):
    """A data set by its config, of another length."""

    def __init__(self, dataset: Mapping[str, Any], length: int) -> None:
        super().__init__(DATASETS.build(dataset), length)


def put_data_in(cfg: Config, sample: Path, length: int | None = None) -> str:
    """Let a config train on data that are at hand, in epochs as long as those of its own; what they are."""
    dataset, name = stand_in(cfg, sample)
    at_hand = len(DATASETS.build(dataset))
    published = find_published_length(cfg)
    source = ''
    if length is not None:
        source = f'; length {length:,} as given'
    elif published is not None:
        length, source = published[0], f'; length of {published[1]}, {published[0]:,}'
    elif counts_epochs(cfg):
        raise RebnnError(
            'its training data are not here, and how many they are is not known, so the schedule has no length. Put '
            'them where the config says, or give their number: --length N'
        )
    loader = cfg.train_dataloader
    loader.dataset = dict(type='Repeated', dataset=dataset, length=length or at_hand)
    loader.sampler = dict(type='DefaultSampler' if counts_epochs(cfg) else 'InfiniteSampler', shuffle=True)
    loader.batch_sampler = None
    if (loader.get('collate_fn') or {}).get('type') == WHOLE_BATCH:  # the stand-in has single items
        loader.pop('collate_fn')
    return name + source


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


def stand_in(cfg: Config, sample: Path) -> tuple[dict[str, Any], str]:
    """Config of data that a config's model can be trained on, and what it is.

    - Detector: the sample's training images through the config's own pipeline; an object of a class that the model
      has not is given one that it has.
    - Classifier: the objects of these images, cut out, with their kind as class.
    - Text classifier: rows of random tokens whose label says which part of the vocabulary is in the majority.
    """
    if text_length(cfg) is not None:
        texts = dict(type='MadeUpTexts', labels=cfg.model.get('num_labels', 2), longest=text_length(cfg)[0])  # type: ignore[index]
        return texts, 'made-up rows of random tokens'
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
        filters = dict(filter_empty_gt=True)
        files = dict(data_root=str(sample), ann_file=ANNOTATIONS, data_prefix=dict(img=IMAGES), filter_cfg=filters)
        _register_sample_images()
        return dict(type='SampleImages', classes=classes, pipeline=pipeline, **files), 'demo/coco_sample'
    if 'head' in cfg.model:
        loads = any('LoadImage' in str(step['type']) for step in pipeline)
        size = None if loads else tuple(input_shape(cfg)[:2])
        objects = dict(type='SampleObjects', sample=str(sample), classes=classes, pipeline=pipeline, size=size)
        return objects, 'objects cut out of demo/coco_sample'
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


def _register_sample_images() -> None:
    from mmdet.datasets import CocoDataset

    class SampleImages(CocoDataset):
        def __init__(self, *args: Any, classes: int, **kwargs: Any) -> None:
            self.classes = classes
            super().__init__(*args, **kwargs)

        def parse_data_info(self, raw_data_info: dict[str, Any]) -> Any:
            info = super().parse_data_info(raw_data_info)
            for instance in info['instances']:
                instance['bbox_label'] %= self.classes
            return info

    DATASETS.register_module(module=SampleImages, force=True)


@DATASETS.register_module()
class SampleObjects(Dataset):
    """The objects of the sample's training images as images of a classifier."""

    def __init__(self, sample: str, classes: int, pipeline: list[Any], size: tuple[int, int] | None) -> None:
        content = json.loads(Path(sample, ANNOTATIONS).read_text())
        files = {image['id']: Path(sample, IMAGES) / image['file_name'] for image in content['images']}
        kinds = {category['id']: number for number, category in enumerate(content['categories'])}
        self.objects = [
            (files[entry['image_id']], entry['bbox'], kinds[entry['category_id']] % classes)
            for entry in content['annotations']
            if min(entry['bbox'][2:]) >= SMALLEST and not entry.get('iscrowd')
        ]
        self.size = size
        self.pipeline = Compose([step for step in pipeline if 'LoadImage' not in str(step['type'])])

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


@DATASETS.register_module()
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


def with_weights_at_hand(cfg: Config, folder: Path, checkpoint: str | None = None) -> list[str]:
    """Take out of a config, in place, what would read weights that cannot be read."""
    notes = []
    if cfg.get('load_from') is not None and not _readable(cfg.load_from):
        notes.append(f'random start, because {cfg.load_from} is not here')
        cfg.load_from = None
    started = cfg.get('load_from') is not None or checkpoint is not None
    for weights in dict.fromkeys(_drop_pretrained(cfg.model)):
        if not started:
            notes.append(f'random start, because {weights} is not here')
    teacher = cfg.model.get('teacher_checkpoint')
    if teacher is not None and not _readable(teacher):
        notes.append(f'random teacher, because {teacher} is not here')
        cfg.model.teacher_checkpoint = None
        cfg.model.teacher = _random_teacher(cfg.model.teacher)
    if text_length(cfg) is not None:
        try:
            check_encoders(cfg, ['train'])
        except RebnnError as missing:
            notes.append(_encoder_at_hand(cfg, folder, missing))
    return notes


def _readable(checkpoint: str) -> bool:
    try:
        CheckpointLoader.load_checkpoint(str(checkpoint), map_location='cpu', logger='silent')
    except Exception:  # every scheme has errors of its own, those of a network among them
        return False
    return True


def _drop_pretrained(value: Any) -> list[str]:
    """Take ``init_cfg`` with weights that cannot be read out of a model's config, in place; their names."""
    lost = []
    if isinstance(value, Mapping):
        init = value.get('init_cfg')
        if isinstance(init, Mapping) and init.get('type') == 'Pretrained' and not _readable(init['checkpoint']):
            lost.append(init['checkpoint'])
            value['init_cfg'] = None  # type: ignore[index]
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            lost += _drop_pretrained(inner)
    return lost


def _random_teacher(teacher: str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(teacher, str):
        config = get_config(teacher) if '::' in teacher else Config.fromfile(teacher)
        teacher = {'data_preprocessor': config.get('data_preprocessor'), **config.model}
    return {**teacher, 'init_cfg': RANDOM}


def _encoder_at_hand(cfg: Config, folder: Path, missing: RebnnError) -> str:
    """Use the encoder next to the tokenizer in place of a missing one, or a random one of its size; which."""
    lost = cfg.model.encoder
    beside = next((name for _, name in encoder_names(cfg, ['train']) if Path(name, 'config.json').is_file()), None)
    if beside is None:
        from transformers import BertConfig, BertForSequenceClassification

        sizes = next((sizes for part, sizes in ENCODER_SIZES.items() if part in lost), None)
        if sizes is None:
            raise missing
        config = BertConfig(num_labels=cfg.model.get('num_labels', 2), **sizes)
        BertForSequenceClassification(config).save_pretrained(folder / 'encoder')
    found = str(folder / 'encoder') if beside is None else beside
    cfg.model.encoder = found
    if 'teacher' in cfg.model:
        cfg.model.teacher = found
    return f'{"random encoder" if beside is None else beside}, because {lost} is not here'
