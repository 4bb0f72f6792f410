"""Draw how the latent weights of a layer's channels are distributed over the epochs, with the scaling factor marked.

    rebnn weights work_dirs/rebnn --layer backbone.layer1.0.conv1 --channel 0

The run needs dict(type='BinaryWeightRecorderHook') in custom_hooks, whose layers and channels say what is recorded
(lab/reports/oscillation.md). The picture is the paper's Figure 2, one row per run and channel; of one
epoch its Figure 1 (b).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rebnn_mm.analysis.figure_style import COLOURS, DPI, figure_style
from rebnn_mm.analysis.weight_history import ChannelWeights, read_weight_history
from rebnn_mm.cli.oscillation import run_labels, spread
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.picture import check_picture, save_picture

COLUMNS = 5
"""Epochs drawn unless --epochs names others."""

Row = dict[int, ChannelWeights]


def draw(rows: dict[str, Row], epochs: Sequence[int], layer: str) -> Figure:
    """One row per entry of ``rows``, one column per epoch; all share their axes, so they can be compared."""
    cells = [row[epoch] for row in rows.values() for epoch in epochs]
    reach = max(max(abs(cell.values).max(), cell.alpha or 0.0) for cell in cells) * 1.05 or 1.0
    # A small layer's channel has too few values for narrow bins.
    bins = int(np.clip(2 * np.sqrt(len(cells[0].values)), 16, 60))
    edges = np.linspace(-reach, reach, bins + 1)
    size = max(1.5 * len(epochs) + 0.7, 3.6), 1.4 * len(rows) + 1.2
    figure, axes = pyplot.subplots(len(rows), len(epochs), figsize=size, squeeze=False, sharex=True, sharey=True)
    for axis_row, (name, row) in zip(axes, rows.items(), strict=True):
        axis_row[0].set_ylabel(name)
        for axis, epoch in zip(axis_row, epochs, strict=True):
            draw_cell(axis, row[epoch], edges)
    for axis, epoch in zip(axes[0], epochs, strict=True):
        axis.set_title('before training' if epoch == 0 else f'epoch {epoch}')
    for axis in axes[-1]:
        axis.set_xlabel('latent weight')
    figure.suptitle(layer, fontsize=9)
    figure.supylabel('share of the channel, %', fontsize=9)
    handles, labels = axes[0][0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc='outside lower center')
    return figure


def draw_cell(axis: Axes, cell: ChannelWeights, edges: np.ndarray) -> None:
    """A histogram, and the scaling factor on both sides where the method has one."""
    shares = np.full(len(cell.values), 100 / len(cell.values))
    axis.hist(cell.values, bins=edges.tolist(), weights=shares, color=COLOURS[0])
    if cell.alpha is not None:
        marks: dict[str, Any] = dict(color=COLOURS[1], linestyle='--', linewidth=1.2)
        axis.axvline(-cell.alpha, **marks)
        axis.axvline(cell.alpha, label=r'$\pm\alpha$, scaling factor', **marks)


@report_errors
def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument('runs', type=Path, nargs='+', metavar='RUN', help='work dir of a recorded run')
    parser.add_argument('--layer', metavar='NAME', help='layer to draw; default: the first one recorded')
    parser.add_argument('--channel', type=int, nargs='+', metavar='I', help='output channels; default: all recorded')
    parser.add_argument('--epochs', type=int, nargs='+', help=f'0: before training; default: {COLUMNS} recorded ones')
    parser.add_argument('--labels', nargs='+', help='a name for each run; default: the names of the work dirs')
    parser.add_argument('--out', type=Path, help='a .png, .svg or .pdf; default: weights.png in the first run')
    args = parser.parse_args()

    labels = run_labels(args.runs, args.labels)
    out = args.out or args.runs[0] / 'weights.png'
    check_picture(out)
    rows: dict[str, Row] = {}
    histories = [read_weight_history(run) for run in args.runs]
    if not histories[0].channels:
        raise RebnnError(f'{args.runs[0]} has a record, but of no latent weights.')
    layer = args.layer or histories[0].channels[0][0]
    channels = args.channel or [channel for name, channel in histories[0].channels if name == layer]
    # A layer that is not recorded has no channels to go through, and is named here.
    for label, history in zip(labels, histories, strict=True):
        for channel in channels or [0]:
            rows[f'{label}\nchannel {channel}'] = history.latent_weights(layer, channel)
    shared = sorted(set.intersection(*(set(row) for row in rows.values())))
    missing = sorted(set(args.epochs or []) - set(shared))
    if missing:
        raise RebnnError(
            f'no latent weights of epoch {missing[0]} in every run; recorded: {", ".join(map(str, shared))}.'
        )
    epochs = args.epochs or spread(shared, COLUMNS)
    diverged = [epoch for epoch in epochs for row in rows.values() if not np.isfinite(row[epoch].values).all()]
    if diverged:
        raise RebnnError(
            f'latent weights of epoch {diverged[0]} are not finite: training has diverged. Choose earlier --epochs.'
        )
    with figure_style():
        save_picture(draw(rows, epochs, layer), out, dpi=DPI)
    print(f'{out}: {layer}, channel {", ".join(map(str, channels))}, epoch {", ".join(map(str, epochs))}')
