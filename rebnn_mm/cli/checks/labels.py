"""Refuses labels that the model has no output for, and data that make no batch."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import DATASETS

from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.command_line import TESTING, check_sections
from rebnn_mm.utils.data_files import check_data, dataset_paths, leaf_datasets, metrics

SPLITS = ('train', 'val', 'test')
HEAD = re.compile(r'(^|\.)(bbox_)?head(\.\d+)?$')


def check_labels(cfg: Mapping[str, Any], splits: Sequence[str] = SPLITS) -> None:
    """Check that annotations of COCO's form have the names of the classes, in their order, and a metric's the images.

    mmdet numbers the categories that it finds in the file, in the file's order, whatever the names of the classes say:
    after one that is missing, each label is that of the next class. A metric compares images by their numbers alone.
    """
    listed: dict[str, tuple[list[str], dict[Any, str]]] = {}
    for split in splits:
        loader = cfg.get(f'{split}_dataloader') or {}
        classes: Any = ()
        files: list[tuple[str, str]] = []
        for key, dataset in leaf_datasets(loader.get('dataset') or {}, f'{split}_dataloader.dataset'):
            kind: Any = dataset.get('type')
            if isinstance(kind, str):
                with DATASETS.switch_scope_and_registry(cfg.get('default_scope')) as registry:
                    kind = registry.get(kind)
            coco = next((base for base in getattr(kind, '__mro__', ()) if base.__name__ == 'CocoDataset'), None)
            if coco is None or kind.load_data_list is not coco.load_data_list:  # others number in ways of their own
                continue
            classes = kind._load_metainfo(dataset.get('metainfo')).get('classes') or ()
            if isinstance(classes, str):
                raise RebnnError(
                    f'{key}.metainfo.classes={classes!r} is one text: write ({classes!r},), with the comma.'
                )
            found = [each.path for each in dataset_paths(dataset, key) if each.key == f'{key}.ann_file']
            files += [(key, path) for path in found]
        scored: list[tuple[str, str]] = []
        if files:  # scores are counted by the file of the metric
            given = metrics(cfg.get(f'{split}_evaluator') or {}, f'{split}_evaluator')
            scored = [(key, path) for key, metric in given if isinstance(path := metric.get('ann_file'), str)]
        for key, path in [*files, *((files[-1][0], path) for _, path in scored)]:
            if path not in listed:
                listed[path] = _read_listed(path)
            if names := listed[path][0]:
                _check_numbers(f'{key}.metainfo.classes', list(classes), names, path)
        for key, path in scored:
            for _, other in files:
                if listed[path][0] and listed[other][1].items() - listed[path][1].items():
                    what = f'it does not list the images of {other}, or by other numbers, so no score would be right.'
                    raise RebnnError(what, f'{key}.ann_file={path!r}', 'Name the annotations of the same images.')


def check_testing(cfg: Config) -> None:
    """Check that a config has a test set, that its files are there, and that they fit its classes."""
    check_sections(cfg, TESTING)
    check_data(cfg, ['test'])
    check_labels(cfg, ['test'])


def check_classes(model: Any, dataset: Any) -> None:
    """Check that no head has fewer classes than the data set has labels, read only where names do not say."""
    for name, module in model.named_modules():
        classes = getattr(module, 'num_classes', None)
        # other parts count otherwise: an RPN has one class, a semantic head those of the background
        is_classifier = HEAD.search(name) and 'Regression' not in type(module).__name__
        if not is_classifier or not isinstance(classes, int):
            continue
        for leaf in _find_leaves(dataset):
            names = getattr(leaf, 'metainfo', {}).get('classes') or ()
            largest = _largest_label(leaf, names, classes)
            if largest >= classes:
                called = f' ({names[largest]!r})' if largest < len(names) else ''
                key = f'model.{name}.num_classes'
                raise RebnnError(
                    f'{key}={classes}, but the training data have the label {largest}{called}: labels go from 0 to '
                    'num_classes - 1.',
                    fix=f'Set {key}={max(largest + 1, len(names))}, or give the data set fewer classes '
                    '(metainfo=dict(classes=...)).',
                )


def check_batches(loader: Any) -> None:
    """Check that a loader does not drop all its images since they do not fill a batch."""
    if getattr(loader, 'drop_last', False) and not len(loader):
        raise RebnnError(
            f'{len(loader.dataset)} images fill no batch of {loader.batch_size}, and drop_last=True leaves them out.',
            'train_dataloader',
            'Set train_dataloader.drop_last=False, or a smaller batch_size.',
        )


def _read_listed(path: str) -> tuple[list[str], dict[Any, str]]:
    """The classes of a file of COCO's form in its order, and its images by number; none where it cannot be read."""
    try:
        with open(path, encoding='utf-8-sig') as file:
            content = json.load(file)
        names = [str(category['name']) for category in content['categories']]
        return names, {image['id']: Path(image['file_name']).name for image in content['images']}
    except (OSError, ValueError, KeyError, TypeError):
        return [], {}


def _check_numbers(key: str, classes: list[str], listed: list[str], path: str) -> None:
    missing = [name for name in classes if name not in listed]
    used = [name for name in listed if name in classes]
    if missing:
        folded = {name.lower(): name for name in listed}
        near = [difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.0)[0] for name in missing]
        pairs = [f'{name!r} (nearest: {folded[match]!r})' for name, match in zip(missing, near, strict=True)]
        raise RebnnError(
            f'{key} names {_shorten(pairs)}, which {path} does not list, so the labels after a missing one would be '
            f'those of other classes. It lists {_show(dict.fromkeys(listed))}.',
            fix='Correct the names here or there, or leave out what it lacks: metainfo=dict(classes=(...)).',
        )
    if used != classes:
        raise RebnnError(
            f'{key} are numbered {_show(classes)}, and {path} lists them as {_show(used)}, which is how mmdet '
            'numbers them.',
            fix='Bring both into one order, each name once.',
        )


def _show(names: Iterable[str]) -> str:
    return _shorten([repr(name) for name in names])


def _shorten(words: Sequence[str], most: int = 8) -> str:
    more = f' and {len(words) - most} more' if len(words) > most else ''
    return ', '.join(words[:most]) + more


def _find_leaves(dataset: Any) -> Iterator[Any]:
    inner = getattr(dataset, 'datasets', None) or [getattr(dataset, 'dataset', None)]
    if inner[0] is None:
        yield dataset
    else:
        for one in inner:
            yield from _find_leaves(one)


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
