"""Draw how often signs flip, by layer and epoch, and the training loss, of one or several recorded runs.

    rebnn oscillation work_dirs/react work_dirs/rebnn --labels ReActNet ReBNN

The runs need dict(type='BinaryWeightRecorderHook') in custom_hooks (lab/reports/oscillation.md). The picture is the
paper's Figure 3. Line styles are runs; colours are layers on the left and runs on the right.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib import colormaps, pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rebnn_mm.analysis.figure_style import DPI, LINE_STYLES, figure_style
from rebnn_mm.analysis.weight_history import QUANTITIES, WeightHistory, read_weight_history
from rebnn_mm.cli.curves import collect, read_entries
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.picture import check_picture, plain, save_picture

LAYERS_SHOWN = 4
"""Layers drawn unless --layers names others: more lines of each run are hard to tell apart."""

LEGEND_COLUMNS = 2

_T = TypeVar('_T')


def run_labels(runs: Sequence[Path], labels: Sequence[str] | None) -> list[str]:
    """A name for each run, by default that of its work dir; ends the program if they do not tell the runs apart."""
    names = list(labels or [run.resolve().name for run in runs])
    if len(names) != len(runs):
        raise RebnnError(f'--labels names {len(names)} runs, and there are {len(runs)}. Give each run one label.')
    if len(set(names)) < len(names):
        raise RebnnError(f'several runs have the same name in {names}. Tell them apart with --labels.')
    return [*map(plain, names)]


def spread(names: Sequence[_T], count: int) -> list[_T]:
    """The first, the last and some evenly between."""
    return [names[round(index)] for index in np.linspace(0, len(names) - 1, min(len(names), count))]


def loss_by_epoch(work_dir: Path, history: WeightHistory) -> tuple[list[int], list[float]]:
    """Mean of the losses that were logged in each epoch."""
    entries = read_entries(sorted(work_dir.glob('*/vis_data/scalars.json')))
    steps, losses = collect(entries, ('loss',)).get('loss', ([], []))
    ends = [iteration for _, iteration in history.epochs]
    by_epoch: dict[int, list[float]] = {}
    for step, loss in zip(steps, losses, strict=True):
        index = bisect_left(ends, step)
        if index < len(ends):
            by_epoch.setdefault(history.epochs[index][0], []).append(loss)
    return list(by_epoch), [sum(values) / len(values) for values in by_epoch.values()]


def draw(
    runs: dict[str, WeightHistory],
    losses: dict[str, tuple[list[int], list[float]]],
    layers: Sequence[str],
    quantity: str = 'sequential',
    log: bool = False,
) -> Figure:
    """The whole figure; ``runs`` and ``losses`` have the same keys, the runs' labels."""
    legend_height = 0.2 * (1 + math.ceil(len(layers) / LEGEND_COLUMNS))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(7, 3.0 + legend_height))
    draw_flips(left, runs, layers, quantity, log)
    draw_losses(right, losses)
    left.set_title('(a)', loc='left')
    right.set_title('(b)', loc='left')
    return figure


def draw_flips(axis: Axes, runs: dict[str, WeightHistory], layers: Sequence[str], quantity: str, log: bool) -> None:
    """One line per run and layer."""
    colours = [colormaps['viridis'](0.85 * index / max(len(layers) - 1, 1)) for index in range(len(layers))]
    for history, style in zip(runs.values(), LINE_STYLES, strict=False):
        for layer, colour in zip(layers, colours, strict=True):
            plot(axis, *history.flip_percent(layer, quantity), linestyle=style, color=colour)
    axis.set(ylabel=f'{QUANTITIES[quantity][0]}, % of the layer')
    if log:
        axis.set_yscale('log')
    else:
        axis.set_ylim(bottom=0)
    handles = [Line2D([], [], color=colour) for colour in colours]
    axis.figure.legend(handles, layers, loc='outside lower center', ncols=LEGEND_COLUMNS, title='layers in (a)')


def draw_losses(axis: Axes, losses: dict[str, tuple[list[int], list[float]]]) -> None:
    """One line per run."""
    for (label, (epochs, values)), style in zip(losses.items(), LINE_STYLES, strict=False):
        plot(axis, epochs, values, linestyle=style, label=label)
    axis.set(ylabel='training loss, mean of the epoch')
    axis.legend(title='runs in (a) and (b)', handlelength=3)


def plot(axis: Axes, epochs: Sequence[int], values: Sequence[float], **options: Any) -> None:
    """A curve over epochs, whose points are marked if they are few."""
    axis.plot(epochs, values, marker='o' if len(epochs) <= 20 else None, markersize=2.5, **options)
    axis.set(xlabel='epoch')
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


@report_errors
def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument('runs', type=Path, nargs='+', metavar='RUN', help='work dir of a recorded run')
    parser.add_argument('--labels', nargs='+', help='a name for each run; default: the names of the work dirs')
    parser.add_argument('--layers', nargs='+', metavar='NAME', help=f'default: {LAYERS_SHOWN} from first to last')
    parser.add_argument(
        '--quantity',
        choices=QUANTITIES,
        default='sequential',
        help='which flips: sequential (in two steps in a row; default), or all; between steps or between epochs',
    )
    parser.add_argument('--log', action='store_true', help='logarithmic axis of the flips; zeros are not drawn')
    parser.add_argument('--out', type=Path, help='a .png, .svg or .pdf; default: oscillation.png in the first run')
    args = parser.parse_args()

    labels = run_labels(args.runs, args.labels)
    out = args.out or args.runs[0] / 'oscillation.png'
    check_picture(out)
    if len(labels) > len(LINE_STYLES):
        raise RebnnError(f'{len(labels)} runs are more than there are line styles. Draw at most {len(LINE_STYLES)}.')
    runs = {label: read_weight_history(run) for label, run in zip(labels, args.runs, strict=True)}
    layers = args.layers or spread(next(iter(runs.values())).layers, LAYERS_SHOWN)
    for history in runs.values():
        for layer in layers:
            history.flip_percent(layer)
    losses = {label: loss_by_epoch(run, runs[label]) for label, run in zip(labels, args.runs, strict=True)}

    with figure_style():
        save_picture(draw(runs, losses, layers, args.quantity, args.log), out, dpi=DPI)
    print(f'{out}: {QUANTITIES[args.quantity][0]}, layers: {len(layers)}, runs: {len(runs)}')
