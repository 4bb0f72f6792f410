"""Lists the encoders, teachers and tokenizers that a config reads, and refuses those that are not there."""

from __future__ import annotations

import os.path as osp
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.data_files import leaf_datasets

OWN_RUN = re.compile(r'(?:^|/)work_dirs/([^/]+)/[^/]+/?$')
GLUE_RUN = re.compile(r'(bert_base|minilm)_(?:(\w+)_)?([a-z0-9]+)')
"""Name of the work dir of one of our GLUE configs: encoder, row (none for the full-precision one) and task."""

HUB_MODELS = {'bert_base_uncased': 'google-bert/bert-base-uncased', 'minilm': 'sentence-transformers/all-MiniLM-L6-v2'}
"""Sources of our configs' encoders, by the name of their directory."""


def encoder_names(cfg: Mapping[str, Any], splits: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Key and directory or hub name of every encoder and tokenizer that is read, and in training of every teacher."""
    model = cfg.get('model') or {}
    for key in ('encoder', 'teacher') if 'train' in splits else ('encoder',):
        if isinstance(model.get(key), str):
            yield f'model.{key}', model[key]
    for split in splits:
        loader = cfg.get(f'{split}_dataloader') or {}
        for key, dataset in leaf_datasets(loader.get('dataset') or {}, f'{split}_dataloader.dataset'):
            for number, step in enumerate(dataset.get('pipeline') or ()):
                if isinstance(step.get('tokenizer'), str):
                    yield f'{key}.pipeline.{number}.tokenizer', step['tokenizer']


def check_encoders(
    cfg: Mapping[str, Any],
    splits: Sequence[str] = ('train', 'val'),
    configs: str = 'configs',
    coming: Collection[str] = (),
) -> None:
    """Check that the encoders, teachers and tokenizers are there, or known to the hub or its cache; load none."""
    if not isinstance((cfg.get('model') or {}).get('encoder'), str):
        return
    names: dict[str, list[str]] = {}
    for key, name in encoder_names(cfg, splits):
        names.setdefault(name, []).append(key)
    for name, keys in names.items():
        if name in coming:
            continue
        if osp.isdir(name):
            if not osp.isfile(osp.join(name, 'config.json')):
                raise RebnnError(f'{name} ({keys[0]}) has no config.json, so it is not an encoder directory.')
            continue
        options = ' '.join(f'{key}=<dir>' for key in keys)
        lost = f'no encoder at {name} ({keys[0]})'
        own = OWN_RUN.search(name)
        if own:
            train = _how_to_train(own[1], configs)
            raise RebnnError(lost, fix=f'{train}, or point to another one: --cfg-options {options}.')
        parts = name.split('/')
        if len(parts) > 2 or parts[0] in ('', '.', '..') or osp.isdir(parts[0]):  # no name of the hub
            hub = HUB_MODELS.get(osp.basename(name.rstrip('/')))
            get = f'Get it (hf download {hub} --local-dir {name}) or link your copy' if hub else 'Put one'
            raise RebnnError(lost, fix=f'{get} there, or point to one: --cfg-options {options}.')
        try:
            from transformers.utils.hub import cached_file

            cached_file(name, 'config.json')
        except (ImportError, OSError) as error:
            reason = first_sentence(error) if isinstance(error, OSError) else 'transformers is not installed'
            raise RebnnError(
                f'{lost}: no such directory, and the hub does not give it ({reason}).',
                fix=f'Give a local directory: --cfg-options {options}.',
            ) from error


def glue_run(work_dir: str) -> tuple[str, str, str] | None:
    """Encoder, row and task of the GLUE config that trains in a work dir of that name, None if it is another's."""
    match = GLUE_RUN.fullmatch(work_dir)
    return (match[1], match[2] or 'real', match[3]) if match else None


def _how_to_train(run: str, configs: str) -> str:
    glue = glue_run(run)
    if glue is not None and Path(configs, '_base_/datasets/glue', glue[0], f'{glue[2]}.py').is_file():
        encoder, row, task = glue
        return f'Train it first: ENCODER={encoder} TASK={task} rebnn train {configs}/glue/{row}.py'
    found = sorted(Path(configs).rglob(f'{run}.py'))
    config = str(found[0]) if found else f'its config {run}.py'
    return f'Train it first: rebnn train {config}'
