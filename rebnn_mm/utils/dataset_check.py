"""Says in one sentence what is wrong with a data set: a missing file, or labels that the model has no output for."""

from __future__ import annotations

import difflib
import json
import os
import os.path as osp
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mmengine.registry import DATASETS

SPLITS = ('train', 'val', 'test')
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


def shifted_labels(cfg: Mapping[str, Any], splits: Sequence[str] = SPLITS) -> str | None:
    """One sentence on names of classes that annotations of COCO's form lack or number otherwise, or ``None``.

    mmdet numbers the categories that it finds in the file, in the file's order, whatever the names of the classes say:
    after one that is missing, each label is that of the next class.

    Args:
        cfg: a config with ``<split>_dataloader`` and ``<split>_evaluator``.
        splits: the splits to look at; files that are not there are left out.

    Returns:
        The key, each class that is missing with the nearest that the file has, or both orders.

    Example:
        >>> images = dict(type='RepeatDataset', times=2, dataset=dict(type='ConcatDataset', datasets=[]))
        >>> print(shifted_labels(dict(train_dataloader=dict(dataset=images))))
        None
    """
    listed: dict[str, list[str]] = {}
    for split in splits:
        loader = cfg.get(f'{split}_dataloader') or {}
        classes: Any = ()
        files: list[tuple[str, str]] = []
        for key, dataset in leaf_datasets(loader.get('dataset') or {}, f'{split}_dataloader.dataset'):
            kind = _dataset_class(dataset.get('type'), cfg.get('default_scope'))
            coco = next((base for base in getattr(kind, '__mro__', ()) if base.__name__ == 'CocoDataset'), None)
            if coco is None or kind.load_data_list is not coco.load_data_list:  # others number in ways of their own
                continue
            classes = kind._load_metainfo(dataset.get('metainfo')).get('classes') or ()
            if isinstance(classes, str):
                return f'{key}.metainfo.classes={classes!r} is one text: write ({classes!r},), with the comma.'
            found = [each.path for each in _dataset_paths(dataset, key) if each.key == f'{key}.ann_file']
            files += [(key, path) for path in found]
        if files:  # scores are counted by the file of the metric
            evaluator = cfg.get(f'{split}_evaluator') or {}
            given = [metric.get('ann_file') for _, metric in _metrics(evaluator, '')]
            files += [(files[-1][0], path) for path in given if isinstance(path, str)]
        for key, path in files:
            if path not in listed:
                listed[path] = _category_names(path)
            problem = _numbered_otherwise(list(classes), listed[path], path)
            if listed[path] and problem:
                return f'{key}.metainfo.classes {problem}'
    return None


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


def _dataset_class(kind: Any, scope: str | None) -> Any:
    with DATASETS.switch_scope_and_registry(scope) as registry:
        return registry.get(kind) if isinstance(kind, str) else kind


def _category_names(path: str) -> list[str]:
    """The names of a file of COCO's form in its order; none where there is no such file."""
    try:
        with open(path, encoding='utf-8-sig') as file:
            return [str(category['name']) for category in json.load(file)['categories']]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _numbered_otherwise(classes: list[str], listed: list[str], path: str) -> str | None:
    """Say what is wrong with the names of classes for a file that lists these."""
    missing = [name for name in classes if name not in listed]
    used = [name for name in listed if name in classes]
    if missing:
        folded = {name.lower(): name for name in listed}
        near = [difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.0) for name in missing]
        pairs = [
            f'{name!r} (nearest: {folded[match[0]]!r})' if match else repr(name)
            for name, match in zip(missing, near, strict=True)
        ]
        return (
            f'names {_shortened(pairs)}, which {path} does not list, so the labels after a missing one would be '
            f'those of other classes. It lists {_shown(dict.fromkeys(listed))}. Correct the names here or there, or '
            'leave out what it lacks: metainfo=dict(classes=(...)).'
        )
    if used == classes:
        return None
    return (
        f'are numbered {_shown(classes)}, and {path} lists them as {_shown(used)}, which is how mmdet numbers them. '
        'Bring both into one order, each name once.'
    )


def _shown(names: Iterable[str]) -> str:
    return _shortened([repr(name) for name in names])


def _shortened(words: Sequence[str], most: int = 8) -> str:
    more = f' and {len(words) - most} more' if len(words) > most else ''
    return ', '.join(words[:most]) + more


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
