"""Says in one sentence what is wrong with a data set: a missing file, or labels that the model has no output for."""

from __future__ import annotations

import os
import os.path as osp
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# mmpretrain downloads these itself when they are missing.
SELF_DOWNLOADING = frozenset({'CIFAR10', 'CIFAR100', 'MNIST', 'FashionMNIST'})
COCO_PATH = re.compile(r'(^|/)coco/|_(train|val|minival)20(14|17)')
HEAD = re.compile(r'(^|\.)(bbox_)?head(\.\d+)?$')
GLUE_FILE = re.compile(r'(^|/)(CoLA|SST-2|MRPC|STS-B|QQP|MNLI|QNLI|RTE|WNLI)/[^/]+\.tsv$')
GLUE_URL = 'https://gluebenchmark.com/tasks'
CIFAR10_FOLDER = 'cifar-10-batches-py'
CIFAR10_URL = 'https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz'


class DataPath(NamedTuple):
    """A file or folder that a config reads.

    Attributes:
        key: where it stands in the config, as ``--cfg-options`` takes it.
        path: the path that will be opened.
        what: what lies there, in words.
        root: the ``data_root`` it is relative to, '' if it is given in full.
        option: what to set to use another copy of the data set.
    """

    key: str
    path: str
    what: str
    root: str
    option: str


def data_paths(cfg: Mapping[str, Any], splits: Sequence[str]) -> Iterator[DataPath]:
    """Every file or folder which the data sets and evaluators of ``splits`` read.

    Wrapped data sets (``RepeatDataset``, ``ConcatDataset`` and any other that keeps them under ``dataset`` or
    ``datasets``) are walked to the innermost ones. Data sets that download themselves are left out.

    Args:
        cfg: a config with ``<split>_dataloader`` and ``<split>_evaluator``.
        splits: of 'train', 'val', 'test'.
    """
    for split in splits:
        loader = cfg.get(f'{split}_dataloader') or {}
        for key, dataset in leaf_datasets(loader.get('dataset') or {}, f'{split}_dataloader.dataset'):
            yield from _dataset_paths(dataset, key)
        evaluator = cfg.get(f'{split}_evaluator') or {}
        for key, metric in _metrics(evaluator, f'{split}_evaluator'):
            if isinstance(metric.get('ann_file'), str):
                option = f'{key}.ann_file'
                yield DataPath(option, metric['ann_file'], 'annotations', '', option)


def missing_data(cfg: Mapping[str, Any], splits: Sequence[str] = ('train', 'val')) -> str | None:
    """One sentence on the first file or folder of the data set that does not exist, or ``None`` if all exist.

    Args:
        cfg: a config with ``<split>_dataloader`` and ``<split>_evaluator``.
        splits: the splits the caller is about to read.

    Returns:
        The message: what was looked for and where, how to get COCO 2017, CIFAR-10 or GLUE, and the ``--cfg-options``
        that point every data set and evaluator with missing files to another copy.

    Example:
        >>> dataset = dict(type='CocoDataset', data_root='nowhere/', ann_file='annotations/train.json')
        >>> missing_data(dict(train_dataloader=dict(dataset=dataset)), ['train']).split(' (')[0]
        'no annotations at nowhere/annotations/train.json'
    """
    missing = [entry for entry in data_paths(cfg, splits) if _is_local(entry.path) and not osp.exists(entry.path)]
    if not missing:
        return None
    first = missing[0]
    options = ' '.join(dict.fromkeys(f'{entry.option}={_example(entry)}' for entry in missing))
    is_coco = any(COCO_PATH.search(entry.path) for entry in missing)
    if is_coco:
        target = first.root.rstrip('/') or osp.dirname(osp.dirname(first.path))
        get = f'Download COCO 2017 (https://cocodataset.org/#download) to {target}'
    elif osp.basename(first.path) == CIFAR10_FOLDER:
        get = f'Download {CIFAR10_URL} and unpack it to {osp.dirname(first.path)}'
    elif GLUE_FILE.search(first.path):
        task, target = osp.basename(osp.dirname(first.path)), osp.dirname(osp.dirname(first.path))
        get = f'Get {task} from {GLUE_URL} and unpack it to {target}'
        options = f'{_other_glue_files(first)}{options}'
    else:
        get = f'Put the data set at {first.root or first.path}'
    hint = ' What comes with the repository works without a download: make demo.' if is_coco else ''
    where = '' if osp.isabs(first.path) else f', looked up from {osp.abspath(osp.curdir)}'
    lost = f'no {first.what} at {first.path} ({first.key}{where})'
    return f'{lost}. {get}, or point to your copy: --cfg-options {options}.{hint}'


def too_few_classes(model: Any, dataset: Any) -> str | None:
    """One sentence on a head with fewer classes than the data set has labels, or ``None``.

    Labels are read only where the names of the classes do not settle it: where there are more names than outputs, and
    where mmpretrain takes the labels from a file.

    Args:
        model: a built model of mmdet or mmpretrain; any other model passes.
        dataset: a built data set, may be a wrapper of others.

    Returns:
        The head, the largest label and what to set.

    Example:
        >>> from types import SimpleNamespace
        >>> head = SimpleNamespace(num_classes=2)
        >>> model = SimpleNamespace(named_modules=lambda: [('head', head)])
        >>> data = SimpleNamespace(metainfo=dict(classes=('ant', 'bee', 'cat')))
        >>> too_few_classes(model, data).split(': ')[0]
        "model.head.num_classes=2, but the training data have the label 2 ('cat')"
    """
    for name, module in model.named_modules():
        classes = getattr(module, 'num_classes', None)
        # other parts count otherwise: an RPN has one class, a semantic head those of the background
        is_classifier = HEAD.search(name) and 'Regression' not in type(module).__name__
        if not is_classifier or not isinstance(classes, int):
            continue
        for leaf in _built_leaves(dataset):
            names = getattr(leaf, 'metainfo', {}).get('classes') or ()
            largest = _largest_label(leaf, names, classes)
            if largest >= classes:
                called = f' ({names[largest]!r})' if largest < len(names) else ''
                key = f'model.{name}.num_classes'
                return (
                    f'{key}={classes}, but the training data have the label {largest}{called}: labels go from 0 to '
                    f'num_classes - 1. Set {key}={max(largest + 1, len(names))}, or give the data set fewer classes '
                    '(metainfo=dict(classes=...)).'
                )
    return None


def no_batch(loader: Any) -> str | None:
    """One sentence on a loader that drops all its images since they do not fill a batch, or ``None``.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> print(no_batch(DataLoader(range(3), batch_size=4, drop_last=True)))
        train_dataloader: 3 images fill no batch of 4, and drop_last=True leaves them out. Set \
train_dataloader.drop_last=False, or a smaller batch_size.
        >>> print(no_batch(DataLoader(range(3), batch_size=4)))
        None
    """
    if not getattr(loader, 'drop_last', False) or len(loader):
        return None
    return (
        f'train_dataloader: {len(loader.dataset)} images fill no batch of {loader.batch_size}, and drop_last=True '
        'leaves them out. Set train_dataloader.drop_last=False, or a smaller batch_size.'
    )


def _built_leaves(dataset: Any) -> Iterator[Any]:
    inner = getattr(dataset, 'datasets', None) or [getattr(dataset, 'dataset', None)]
    if inner[0] is None:
        yield dataset
    else:
        for one in inner:
            yield from _built_leaves(one)


def _largest_label(dataset: Any, names: Sequence[str], classes: int) -> int:
    """The largest label, -1 if it is small enough or there is none."""
    from_file = hasattr(dataset, 'get_gt_labels') and bool(getattr(dataset, 'ann_file', ''))
    if 0 < len(names) <= classes and not from_file:
        return -1
    if not hasattr(dataset, 'get_cat_ids'):
        return len(names) - 1
    try:
        return max((label for index in range(len(dataset)) for label in dataset.get_cat_ids(index)), default=-1)
    except NotImplementedError:
        return len(names) - 1
    except KeyError:  # rows without labels
        return -1


def _other_glue_files(entry: DataPath) -> str:
    """An option for each file that is there instead, such as a part of the task's rows."""
    folder = osp.dirname(entry.path)
    there = [name for name in sorted(os.listdir(folder)) if name.endswith('.tsv')] if osp.isdir(folder) else []
    return f'{entry.key}={osp.basename(folder)}/<{"|".join(there)}> or ' if there else ''


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


def _metrics(evaluator: Any, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(evaluator, Mapping):
        yield key, evaluator
        yield from _metrics(evaluator.get('metrics', ()), f'{key}.metrics')
    else:
        for index, metric in enumerate(evaluator):
            yield from _metrics(metric, f'{key}.{index}')


def _dataset_paths(dataset: Mapping[str, Any], key: str) -> Iterator[DataPath]:
    kind = getattr(dataset.get('type'), '__name__', str(dataset.get('type'))).split('.')[-1]
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
