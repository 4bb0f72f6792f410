"""Takes the results of a finished run out of its work dir, and says where they come from."""

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lab.machine import processor, versions
from rebnn_mm.analysis.weight_history import read_weight_history
from rebnn_mm.engine.weight_recorder_hook import RECORD_FILE
from rebnn_mm.errors import RebnnError
from rebnn_mm.functional import channel_mean_abs
from rebnn_mm.utils.checkpoint import latest_checkpoint

BY_LAYER = ('flip_percent/', 'sequential_flip_percent/')
"""How the recorder's scalars by layer begin; they are read from its own file."""

REACH = 3.0
"""Histograms go from -REACH to REACH mean magnitudes of the channel."""

BINS = 60

PACKAGES = ('torch', 'onedl-mmengine', 'mmengine', 'onedl-mmdetection', 'mmdet', 'onedl-mmpretrain', 'mmpretrain')


def collect_results(work_dir: str | Path, score: str) -> dict[str, Any]:
    """The entries ``final``, ``curves``, ``flips`` and ``weights`` of a run's record.

    A run that was stopped and resumed has written several files; what a later one repeats takes the place of what was
    there. ``flips`` and ``weights`` are empty where no weight recorder ran or no layer is binary.

    Args:
        work_dir: where the run trained.
        score: name of the score that counts.

    Raises:
        ValueError: the score was not written, or is not a number; the message says what there is.
    """
    work_dir = Path(work_dir)
    curves = _curves(work_dir)
    if score not in curves:
        scores = [name for name in curves if name != 'loss']
        raise RebnnError(f'no score {score!r} in {work_dir}. Written: {", ".join(scores) or "nothing"}.')
    final = curves[score]['value'][-1]
    if final != final:
        raise RebnnError(f'the last {score} in {work_dir} is not a number: training has diverged.')
    flips = _flips(work_dir)
    checkpoint = last_checkpoint(work_dir)
    weights: dict[str, Any] = {}
    if flips and checkpoint is not None:
        state = torch.load(checkpoint, map_location='cpu', weights_only=False)['state_dict']
        weights = latent_weight_histograms(state, flips)
    return dict(final=final, curves=curves, flips=flips, weights=weights)


def collect_test(work_dir: str | Path, score: str) -> dict[str, float]:
    """All scores of the last test in a work dir.

    Args:
        work_dir: that of the test.
        score: name of the score that counts.

    Raises:
        ValueError: it is not among them; the message says what there is.
    """
    files = sorted(Path(work_dir).glob('*/*.json'))
    found = json.loads(files[-1].read_text()) if files else {}
    scores = {name: value for name, value in found.items() if name not in ('time', 'data_time')}
    if score not in scores:
        raise RebnnError(f'the test in {work_dir} wrote no score {score!r}, but {", ".join(scores) or "nothing"}.')
    return scores


def latent_weight_histograms(state: Mapping[str, Tensor], layers: Iterable[str]) -> dict[str, dict[str, Any]]:
    r"""Histogram of :math:`w_{ij} / \frac{1}{M} \sum_j |w_{ij}|` of each layer.

    Channels of one layer differ in the size of their weights; divided by their mean magnitude they can be put
    together. With a scaling factor of mean(abs(w)), -1 and 1 are where the binarized weights stand.

    Args:
        state: state dict of the model.
        layers: names of its binary layers.

    Returns:
        dict: by layer ``mean_abs``, the mean magnitude; ``counts`` of :data:`BINS` equal bins from -:data:`REACH` to
        :data:`REACH`; ``outside``, how many weights are further out.

    Example:
        >>> weight = torch.tensor([[1.0, -1.0, 1.0, -1.0], [0.1, 0.1, 0.1, -0.5]])
        >>> found = latent_weight_histograms({'conv.weight': weight}, ['conv'])['conv']
        >>> found['mean_abs'], sum(found['counts']), found['outside']
        (0.6, 8, 0)
    """
    found = {}
    for name in layers:
        weight = state[f'{name}.weight'].detach().float().cpu()
        size = channel_mean_abs(weight).clamp(min=1e-12)
        ratio = weight.flatten(1) / size[:, None]
        counts = torch.histc(ratio, bins=BINS, min=-REACH, max=REACH).long().tolist()
        found[name] = dict(
            mean_abs=float(f'{weight.abs().mean():.4g}'), counts=counts, outside=ratio.numel() - sum(counts)
        )
    return found


def last_checkpoint(work_dir: str | Path) -> Path | None:
    """The checkpoint that a run would go on from, None if there is none."""
    found = latest_checkpoint(work_dir)
    return Path(found).resolve() if found is not None and Path(found).is_file() else None


def provenance(root: Path) -> dict[str, Any]:
    """Commit, date, machine, threads and versions, for a record's ``made``.

    Args:
        root: root of the project's clone. Without git ``commit`` is empty.

    Example:
        >>> sorted(provenance(Path('.')))
        ['changed', 'commit', 'date', 'device', 'hardware', 'threads', 'versions']
    """
    return dict(
        commit=_git(root, 'rev-parse', '--short=10', 'HEAD'),
        changed=bool(_git(root, 'status', '--porcelain', '--untracked-files=no')),
        date=datetime.now(timezone.utc).strftime('%Y-%m-%d'),
        hardware=f'{processor()}, {os.cpu_count()} cores',
        device=device_name(),
        threads=os.environ.get('OMP_NUM_THREADS', ''),
        versions=versions(PACKAGES),
    )


def device_name() -> str:
    """The GPU that trains here, or ``'cpu'``."""
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else 'cpu'


def _curves(work_dir: Path) -> dict[str, dict[str, list[float]]]:
    """Scores by epoch, and the mean over each epoch of what was logged in training."""
    train: dict[int, dict[str, Any]] = {}
    scores: dict[int, dict[str, float]] = {}
    for file in sorted(work_dir.glob('*/vis_data/scalars.json')):
        for entry in _log_entries(file):
            if 'lr' in entry:
                train[entry['step']] = entry
            elif not any(key.startswith(BY_LAYER) for key in entry):
                # Only the evaluator and the recorder write without a learning rate.
                scores[entry['step']] = entry
    by_epoch: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for entry in train.values():
        for name, value in entry.items():
            if name == 'loss' or name.startswith('rebnn/'):
                by_epoch[name][entry['epoch']].append(value)
    for epoch, entry in scores.items():
        for name, value in entry.items():
            if name not in ('step', 'time', 'data_time'):
                by_epoch[name][epoch].append(value)
    return {
        name: dict(epoch=sorted(found), value=[float(f'{sum(found[e]) / len(found[e]):.6g}') for e in sorted(found)])
        for name, found in by_epoch.items()
    }


def _flips(work_dir: Path) -> dict[str, dict[str, Any]]:
    if not any(work_dir.glob(f'*/{RECORD_FILE}')):
        return {}
    return flip_counts(read_weight_history(work_dir).entries)


def flip_counts(entries: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """All counts of a record, by layer: ``weights``, and lists over the epochs of ``epoch`` and of each count.

    Example:
        >>> flip_counts([dict(epoch=1, layers={'conv': dict(weights=9, steps=2, flips=3)})])
        {'conv': {'weights': 9, 'epoch': [1], 'steps': [2], 'flips': [3]}}
    """
    counts: dict[str, dict[str, Any]] = {}
    for entry in entries:
        for name, numbers in entry['layers'].items():
            layer = counts.setdefault(name, dict(weights=numbers['weights'], epoch=[]))
            layer['epoch'].append(entry['epoch'])
            for key, number in numbers.items():
                if key != 'weights':
                    layer.setdefault(key, []).append(number)
    return counts


def _log_entries(file: Path) -> list[dict[str, Any]]:
    """The entries of a ``scalars.json``; what a killed run has not written to the end is left out."""
    entries = []
    for line in file.read_text().splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return entries


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(['git', *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ''
    return done.stdout.strip() if done.returncode == 0 else ''
