"""Figures of an experiment, from records alone: flips by layer and epoch, final latent weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rebnn_mm.analysis.figure_style import COLOURS

from .collect import BINS, REACH

Records = Mapping[str, Sequence[dict[str, Any]]]
"""Records of finished runs, one per seed, by the label of their setting."""


def layer_flips(
    records: Sequence[dict[str, Any]], layer: str, count: str = 'sequential_flips'
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Flips of a layer in percent of its weights per step: epochs, mean and half the range over the seeds.

    Example:
        >>> runs = [dict(flips=dict(conv=dict(weights=50, epoch=[1], steps=[4], flips=[n]))) for n in (2, 4)]
        >>> epochs, mean, spread = layer_flips(runs, 'conv', 'flips')
        >>> epochs, mean.tolist(), spread.tolist()
        ([1], [1.5], [0.5])
    """
    by_seed = []
    for record in records:
        counts = record['flips'][layer]
        by_seed.append(100 * np.array(counts[count]) / (counts['weights'] * np.array(counts['steps'])))
    values = np.stack(by_seed)
    return records[0]['flips'][layer]['epoch'], values.mean(axis=0), np.ptp(values, axis=0) / 2


def draw_flips(settings: Records, layers: Sequence[str], count: str = 'sequential_flips') -> Figure:
    """A panel per layer, a line per setting with a band over its seeds: the form of the paper's Figure 3 (a)."""
    figure, axes = pyplot.subplots(
        1, len(layers), figsize=(max(2.3 * len(layers), 3.6), 2.9), squeeze=False, sharex=True
    )
    for axis, layer in zip(axes[0], layers, strict=True):
        for (label, records), colour in zip(settings.items(), COLOURS, strict=False):
            epochs, mean, spread = layer_flips(records, layer, count)
            axis.plot(epochs, mean, color=colour, marker='o', markersize=2.5, label=f'{label} (n = {len(records)})')
            axis.fill_between(epochs, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
        axis.set(title=layer.removeprefix('backbone.'), xlabel='epoch')
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    name = 'sequential flips' if count == 'sequential_flips' else 'flips'
    axes[0][0].set_ylabel(f'{name} per step, %')
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc='outside lower center', ncols=len(settings))
    return figure


def draw_histograms(settings: Records, layers: Sequence[str]) -> Figure:
    """A row per setting, a column per layer: final latent weights over the mean magnitude of their channel.

    The form of the paper's Figures 1 (b) and 2, for whole layers and all seeds together. Dashed lines stand at -1 and
    1: the scaling factors of a method whose factor is mean(abs(w)).
    """
    edges = np.linspace(-REACH, REACH, BINS + 1)
    figure, axes = pyplot.subplots(
        len(settings),
        len(layers),
        figsize=(max(2.3 * len(layers), 3.6), 1.3 * len(settings) + 0.9),
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    for axis_row, (label, records) in zip(axes, settings.items(), strict=True):
        axis_row[0].set_ylabel(label)
        for axis, layer in zip(axis_row, layers, strict=True):
            counts = np.sum([record['weights'][layer]['counts'] for record in records], axis=0)
            outside = sum(record['weights'][layer]['outside'] for record in records)
            axis.stairs(100 * counts / (counts.sum() + outside), edges, fill=True, color=COLOURS[0])
            for mark in (-1, 1):
                axis.axvline(mark, color=COLOURS[1], linestyle='--', linewidth=1)
    for axis, layer in zip(axes[0], layers, strict=True):
        axis.set_title(layer.removeprefix('backbone.'))
    figure.supxlabel('latent weight over mean magnitude of its channel', fontsize=9)
    figure.supylabel('share of the weights, %', fontsize=9)
    return figure


def shares(record: dict[str, Any], layer: str | None = None) -> dict[str, float]:
    """Measure where final latent weights are, in percent: near zero, near the scaling factor, or further out.

    Args:
        record: of a finished run.
        layer: one layer; None for all together.

    Returns:
        dict: ``near_zero``, below 0.25 mean magnitudes; ``near_alpha``, 0.75 to 1.25; ``far``, above 2.

    Example:
        >>> counts = [0] * BINS
        >>> counts[30] = 3; counts[40] = 1
        >>> shares(dict(weights=dict(conv=dict(counts=counts, outside=0))))
        {'near_zero': 75.0, 'near_alpha': 25.0, 'far': 0.0}
    """
    layers = [record['weights'][layer]] if layer else list(record['weights'].values())
    counts = np.sum([entry['counts'] for entry in layers], axis=0)
    outside = sum(entry['outside'] for entry in layers)
    middles = np.abs(np.linspace(-REACH, REACH, BINS + 1)[:-1] + REACH / BINS)
    total = counts.sum() + outside
    return dict(
        near_zero=float(100 * counts[middles < 0.25].sum() / total),
        near_alpha=float(100 * counts[(middles > 0.75) & (middles < 1.25)].sum() / total),
        far=float(100 * (counts[middles > 2].sum() + outside) / total),
    )
