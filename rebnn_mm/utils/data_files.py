"""Lists the files that the data sets of a config read, and refuses those that are not there."""

from __future__ import annotations

import os.path as osp
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rebnn_mm.datasets import GLUE_TASKS, cifar10, glue
from rebnn_mm.errors import RebnnError

# mmpretrain downloads these itself when they are missing.
SELF_DOWNLOADING = frozenset({'CIFAR10', 'CIFAR100', 'MNIST', 'FashionMNIST'})
COCO_PATH = re.compile(r'(^|/)coco/|_(train|val|minival)20(14|17)')
GLUE_FOLDERS = {task.folder for task in GLUE_TASKS.values()}


class DataPath(NamedTuple):
    """A file or folder that a config reads."""

    key: str  # where it stands in the config, as --cfg-options takes it
    path: str  # the path that will be opened
    what: str  # what lies there, in words
    root: str  # the data_root it is relative to, '' if it is given in full
    option: str  # what to set to use another copy of the data set


def data_paths(cfg: Mapping[str, Any], splits: Sequence[str]) -> Iterator[DataPath]:
    """Every file or folder which the data sets and evaluators of ``splits`` read, but for what downloads itself."""
    for split in splits:
        loader = cfg.get(f'{split}_dataloader') or {}
        for key, dataset in leaf_datasets(loader.get('dataset') or {}, f'{split}_dataloader.dataset'):
            yield from dataset_paths(dataset, key)
        evaluator = cfg.get(f'{split}_evaluator') or {}
        for key, metric in metrics(evaluator, f'{split}_evaluator'):
            if isinstance(metric.get('ann_file'), str):
                option = f'{key}.ann_file'
                yield DataPath(option, metric['ann_file'], 'annotations', '', option)


def check_data(cfg: Mapping[str, Any], splits: Sequence[str] = ('train', 'val')) -> None:
    """Check that the files and folders of the data sets exist."""
    missing = [entry for entry in data_paths(cfg, splits) if _is_local(entry.path) and not osp.exists(entry.path)]
    if not missing:
        return
    first = missing[0]
    options = ' '.join(dict.fromkeys(f'{entry.option}={_example(entry)}' for entry in missing))
    is_coco = any(COCO_PATH.search(entry.path) for entry in missing)
    if is_coco:
        target = first.root.rstrip('/') or osp.dirname(osp.dirname(first.path))
        get = f'Download COCO 2017 (https://cocodataset.org/#download) to {target}'
    elif osp.basename(first.path) == cifar10.FOLDER:
        get = f'Download {cifar10.DOWNLOAD} and unpack it to {osp.dirname(first.path)}'
    elif first.path.endswith('.tsv') and (task := osp.basename(osp.dirname(first.path))) in GLUE_FOLDERS:
        get = f'Get {task} from {glue.DOWNLOAD} and unpack it to {osp.dirname(osp.dirname(first.path))}'
    else:
        get = f'Put the data set at {first.root or first.path}'
    hint = ' What comes with the repository works without a download: make demo.' if is_coco else ''
    where = '' if osp.isabs(first.path) else f', looked up from {osp.abspath(osp.curdir)}'
    lost = f'no {first.what} at {first.path} ({first.key}{where})'
    raise RebnnError(lost, fix=f'{get}, or point to your copy: --cfg-options {options}.{hint}')


def leaf_datasets(dataset: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The innermost data sets under ``dataset``, each with its key in the config."""
    inner = dataset.get('datasets', dataset.get('dataset'))
    name = 'datasets' if 'datasets' in dataset else 'dataset'
    if isinstance(inner, Mapping):
        yield from leaf_datasets(inner, f'{key}.{name}')
    elif isinstance(inner, Sequence):
        for index, item in enumerate(inner):
            yield from leaf_datasets(item, f'{key}.{name}.{index}')
    else:
        yield key, dataset


def type_name(part: Mapping[str, Any]) -> str:
    """The name of the class that a part of a config is made of, without scope and module."""
    kind = part.get('type')
    return getattr(kind, '__name__', str(kind)).rpartition('.')[2]


def metrics(evaluator: Any, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each metric of an evaluator with its key in the config."""
    if isinstance(evaluator, Mapping):
        yield key, evaluator
        yield from metrics(evaluator.get('metrics', ()), f'{key}.metrics')
    else:
        for index, metric in enumerate(evaluator):
            yield from metrics(metric, f'{key}.{index}')


def dataset_paths(dataset: Mapping[str, Any], key: str) -> Iterator[DataPath]:
    """The files and folders of a data set that wraps no other."""
    kind = type_name(dataset)
    if kind in SELF_DOWNLOADING and dataset.get('download', True):
        return
    root = dataset.get('data_root') or ''
    prefixes = dataset.get('data_prefix') or {}
    if isinstance(prefixes, str):
        prefixes = {'': prefixes}
    files = [('ann_file', dataset.get('ann_file'), 'rows' if kind == 'GLUEDataset' else 'annotations')]
    files += [
        (f'data_prefix.{name}'.rstrip('.'), prefix, 'images' if name in ('', 'img', 'img_path') else 'data')
        for name, prefix in prefixes.items()
    ]
    given = [(name, path, what) for name, path, what in files if path and isinstance(path, str)]
    if root and not given:
        yield DataPath(f'{key}.data_root', root, 'data', root, f'{key}.data_root')
    for name, path, what in given:
        if root and not osp.isabs(path) and _is_local(path):
            yield DataPath(f'{key}.{name}', osp.join(root, path), what, root, f'{key}.data_root')
        else:
            yield DataPath(f'{key}.{name}', path, what, '', f'{key}.{name}')


def _is_local(path: str) -> bool:
    return '://' not in path and not path.startswith('s3:')


def _example(entry: DataPath) -> str:
    if entry.option.endswith('data_root'):
        return '/path/to/coco/' if COCO_PATH.search(entry.path) else '/path/to/data/'
    tail = '/'.join(entry.path.split('/')[-2:])
    return f'/path/to/coco/{tail}' if COCO_PATH.search(entry.path) else f'/path/to/{tail}'
