"""Takes the results of a finished run out of its work dir."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from ..analysis.weight_history import read_weight_history
from ..engine.weight_recorder_hook import RECORD_FILE
from .latent_weights import latent_weight_histograms
from .progress import last_checkpoint, log_entries

BY_LAYER = ('flip_percent/', 'sequential_flip_percent/')
"""How the recorder's scalars by layer begin; they are read from its own file."""


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
        raise ValueError(f'no score {score!r} in {work_dir}. Written: {", ".join(scores) or "nothing"}.')
    final = curves[score]['value'][-1]
    if final != final:
        raise ValueError(f'the last {score} in {work_dir} is not a number: training has diverged.')
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
        raise ValueError(f'the test in {work_dir} wrote no score {score!r}, but {", ".join(scores) or "nothing"}.')
    return scores


def _curves(work_dir: Path) -> dict[str, dict[str, list[float]]]:
    """Scores by epoch, and the mean over each epoch of what was logged in training."""
    train: dict[int, dict[str, Any]] = {}
    scores: dict[int, dict[str, float]] = {}
    for file in sorted(work_dir.glob('*/vis_data/scalars.json')):
        for entry in log_entries(file):
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
    return read_weight_history(work_dir).flip_counts()
