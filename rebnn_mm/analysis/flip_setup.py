"""Training data for the steps of a flip measurement, in epochs as long as those of the whole training."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.registry import DATASETS
from torch.utils.data import Dataset

from rebnn_mm.utils.data_files import check_data
from rebnn_mm.utils.encoders import check_encoders


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


def training_loader(cfg: Config, batch_size: int | None, image_size: int | None) -> tuple[ConfigDict, list[str]]:
    """The config's training loader, with epochs as long as those of the whole training, and what differs in it."""
    check_data(cfg, ['train'])
    check_encoders(cfg, ['train'])
    loader = copy.deepcopy(cfg.train_dataloader)
    for name in ('prefetch_factor', 'worker_init_fn'):
        loader.pop(name, None)
    loader.update(num_workers=0, persistent_workers=False)
    notes = []
    if image_size is not None and _shrink(loader.dataset, image_size):
        notes.append(f'images of at most {image_size} pixels')
    dataset = DATASETS.build(loader.dataset)
    if hasattr(dataset, 'full_init'):
        dataset.full_init()
    devices = _devices(cfg, loader.batch_size)
    if devices > 1 and counts_epochs(cfg):
        notes.append(f'steps of {devices} devices together, as in auto_scale_lr.base_batch_size')
    size = batch_size or loader.batch_size
    if size != loader.batch_size:
        notes.append(f'batch {size} in place of {loader.batch_size * devices}')
    rounded = math.floor if loader.get('drop_last') else math.ceil
    steps = max(1, rounded(len(dataset) / (loader.batch_size * devices)))
    loader.update(batch_size=size, dataset=OfLength(dataset, steps * size))
    return loader, notes


def counts_epochs(cfg: Config) -> bool:
    """Whether a config trains by epochs, not by iterations."""
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
