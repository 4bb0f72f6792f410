"""Weights and data for the steps of a flip measurement, from what is available."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.hub import get_config
from mmengine.registry import DATASETS
from mmengine.runner import CheckpointLoader

from rebnn_mm.utils.data_files import check_data
from rebnn_mm.utils.encoders import check_encoders, encoder_names

from ..errors import RebnnError
from .config_network import text_length
from .stand_in_data import OfLength, find_published_length, stand_in

RANDOM = dict(type='Kaiming', layer='Conv2d', distribution='normal')
"""How a teacher whose weights are not at hand begins."""

WHOLE_BATCH = 'rebnn_whole_batch'
"""The collate function of data sets that make a batch at once."""

ENCODER_SIZES = {
    'minilm': dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536),
    'bert_base': {},
}
"""Stand-ins for missing encoders, by a part of their path; BERT's own default is the base size."""


@dataclass(frozen=True)
class Options:
    """How a config is measured.

    Attributes:
        steps: optimizer iterations.
        data: 'config' for the config's own data, 'sample' for what comes with the project, None for the config's own
            if they are here.
        sample: where ``demo/coco_sample`` lies.
        batch_size: None for the config's.
        image_size: longest side at most, in pixels; None for the config's.
        length: training images of the config's data, where they are neither here nor well known.
        checkpoint: what to start from, in place of ``load_from``.
        seed: of everything random.
    """

    steps: int = 200
    data: str | None = None
    sample: Path = Path('demo/coco_sample')
    batch_size: int | None = None
    image_size: int | None = None
    length: int | None = None
    checkpoint: str | None = None
    seed: int = 0


def training_loader(cfg: Config, options: Options) -> tuple[ConfigDict, str, list[str]]:
    """The config's training loader on data that are at hand, with epochs as long as those of the whole training."""
    loader = copy.deepcopy(cfg.train_dataloader)
    for name in ('prefetch_factor', 'worker_init_fn'):
        loader.pop(name, None)
    loader.update(num_workers=0, persistent_workers=False)
    notes = []
    if options.image_size is not None and _shrink(loader.dataset, options.image_size):
        notes.append(f'images of at most {options.image_size} pixels')
    missing = False
    try:
        check_data(cfg, ['train'])
        check_encoders(cfg, ['train'])
    except RebnnError:
        if options.data == 'config':
            raise
        missing = True
    if missing or options.data == 'sample':
        cfg.train_dataloader = loader
        dataset, data = stand_in(cfg, options.sample)
        length, source = _find_known_length(cfg, options, len(dataset))
        data += source
        loader.sampler = dict(type='DefaultSampler' if _epochs(cfg) else 'InfiniteSampler', shuffle=True)
        loader.batch_sampler = None
        if (loader.get('collate_fn') or {}).get('type') == WHOLE_BATCH:  # the stand-in has single items
            loader.pop('collate_fn')
    else:
        dataset, data = DATASETS.build(loader.dataset), "the config's own"
        if hasattr(dataset, 'full_init'):
            dataset.full_init()
        length = len(dataset)
    devices = _devices(cfg, loader.batch_size)
    if devices > 1 and _epochs(cfg):
        notes.append(f'steps of {devices} devices together, as in auto_scale_lr.base_batch_size')
    size = options.batch_size or loader.batch_size
    if size != loader.batch_size:
        notes.append(f'batch {size} in place of {loader.batch_size * devices}')
    rounded = math.floor if loader.get('drop_last') else math.ceil
    steps = max(1, rounded(length / (loader.batch_size * devices)))
    loader.update(batch_size=size, dataset=OfLength(dataset, steps * size))
    return loader, data, notes


def _find_known_length(cfg: Config, options: Options, at_hand: int) -> tuple[int, str]:
    if options.length is not None:
        return options.length, f'; length {options.length:,} as given'
    published = find_published_length(cfg)
    if published is not None:
        return published[0], f'; length of {published[1]}, {published[0]:,}'
    if _epochs(cfg):
        raise RebnnError(
            'its training data are not here, and how many they are is not known, so the schedule has no length. Put '
            'them where the config says, or give their number: --length N'
        )
    return at_hand, ''


def _epochs(cfg: Config) -> bool:
    loop = cfg.train_cfg
    return bool(loop.get('by_epoch', 'Epoch' in str(loop.get('type', ''))))


def _devices(cfg: Config, batch_size: int) -> int:
    """How many of the loader's batches make the batch that the learning rate is for."""
    wanted = (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or batch_size
    return wanted // batch_size if wanted % batch_size == 0 else 1


def _shrink(value: Any, longest: int) -> bool:
    """Cut the sizes in the transforms of a data set's config down, in place; whether one was larger."""
    smaller = False
    if isinstance(value, Mapping):
        for key in ('scale', 'crop_size', 'size'):
            old: Any = value.get(key)
            sizes = [old] if isinstance(old, int) else list(old) if _is_pair(old) else []
            if sizes and max(sizes) > longest and 'type' in value:
                new = [max(1, round(size * longest / max(sizes))) for size in sizes]
                value[key] = new[0] if isinstance(old, int) else tuple(new)  # type: ignore[index]
                smaller = True
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            smaller = _shrink(inner, longest) or smaller
    return smaller


def _is_pair(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) == 2 and all(isinstance(size, int) for size in value)


def with_weights_at_hand(cfg: Config, folder: Path, checkpoint: str | None = None) -> list[str]:
    """Take out of a config, in place, what would read weights that cannot be read."""
    if checkpoint is not None and not _readable(checkpoint):
        raise RebnnError(f'no checkpoint can be read from {checkpoint}. Name a file that tools/train.py wrote.')
    notes = [] if checkpoint is None else [f'start from {checkpoint}']
    cfg.load_from = checkpoint or cfg.get('load_from')
    if cfg.load_from is not None and not _readable(cfg.load_from):
        notes.append(f'random start, because {cfg.load_from} is not here')
        cfg.load_from = None
    started = cfg.load_from is not None
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
