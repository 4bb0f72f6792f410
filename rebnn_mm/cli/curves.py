"""Draw the curves of a training from its log: losses, scores, flipped signs, gamma's bounds.

rebnn curves work_dirs/faster_rcnn_r18_rebnn_coco
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.picture import check_picture, plain, save_picture

Series = dict[str, tuple[list[int], list[float]]]

# Panel title to the end of the keys it shows; a panel without data is left out.
PANELS = {
    'training loss': ('loss', 'loss_cls', 'loss_bbox', 'loss_rpn_cls', 'loss_rpn_bbox'),
    'validation score': (
        *('_mAP', '_mAP_50', '_mAP_75', '/mAP', '/AP50', '/top1', '/top5'),
        *('/accuracy', '/f1', '/matthews', '/pearson', '/spearman', '/pearson_spearman'),
    ),
    'signs flipped per step, of a million': (
        *('rebnn/flips_per_million', 'rebnn/sequential_flips_per_million'),
        *('flips_per_million', 'sequential_flips_per_million'),  # of BinaryWeightRecorderHook
    ),
    'channels with gamma on a bound, %': ('rebnn/gamma_at_lower_percent', 'rebnn/gamma_at_upper_percent'),
}


def read_entries(files: Iterable[Path]) -> list[tuple[int, dict[str, float]]]:
    """Logged entries with the training step each belongs to; those of a validation take that of the entry before.

    A later file replaces what an earlier one has from its first step on.
    """
    entries: list[tuple[int, dict[str, float]]] = []
    for file in files:
        own: list[tuple[int, dict[str, float]]] = []
        lines = list(_whole_lines(file))
        # What stands before the first training entry of a resumed run belongs to it, not to the beginning.
        last = next((values['step'] for values in lines if _is_of_training(values)), 0)
        for values in lines:
            last = values['step'] if _is_of_training(values) else last
            own.append((last, values))
        if own:
            entries = [entry for entry in entries if entry[0] < own[0][0]] + own
    return entries


def _whole_lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text().splitlines():
        with suppress(json.JSONDecodeError):  # what a killed run has not written to the end
            yield json.loads(line)


def _is_of_training(values: Mapping[str, Any]) -> bool:
    return any(key.rpartition('.')[2] == 'lr' for key in values)  # one of several optimizers stands before the point


def collect(entries: list[tuple[int, dict[str, float]]], ends: tuple[str, ...]) -> Series:
    """Steps and values of every key that is, or ends in, one of ``ends``; AP in percent, without COCO's -1."""
    series: Series = {}
    for step, values in entries:
        for key, value in values.items():
            wanted = any(key == end or (end[0] in '_/' and key.endswith(end)) for end in ends)
            if wanted and not (value == -1 and '_mAP' in key):
                steps, points = series.setdefault(key, ([], []))
                steps.append(step)
                points.append(100 * value if '_mAP' in key else value)
    return series


def draw(entries: list[tuple[int, dict[str, float]]], title: str, out: Path) -> list[str]:
    """Write the picture and return the titles of its panels."""
    panels = {name: collect(entries, ends) for name, ends in PANELS.items()}
    panels = {name: series for name, series in panels.items() if series}
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.5 * len(panels), 3.6), squeeze=False)
    for axis, (name, series) in zip(axes[0], panels.items(), strict=True):
        for key, (steps, values) in series.items():
            label, marker = f'{key}, %' if '_mAP' in key else key, 'o' if len(steps) < 20 else None
            axis.plot(steps, values, label=label, marker=marker, markersize=3)
        axis.set(title=name, xlabel='iteration')
        axis.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if not any(value < 0 for _, values in series.values() for value in values):  # as a correlation may be
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.suptitle(plain(title))
    figure.tight_layout()
    save_picture(figure, out, dpi=110)
    return list(panels)


@report_errors
def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument('work_dir', type=Path, help='work dir of a training run')
    parser.add_argument('--out', type=Path, help='picture to write; default: curves.png in the work dir')
    args = parser.parse_args()
    out = args.out or args.work_dir / 'curves.png'

    files = sorted(args.work_dir.glob('*/vis_data/scalars.json'))
    if not files:
        raise RebnnError(f'no */vis_data/scalars.json in {args.work_dir}. Name the work dir of a training run.')
    check_picture(out)
    entries = read_entries(files)
    if not entries:
        raise RebnnError(f'nothing is logged yet in {files[-1]}. Wait for the first lines of the log.')
    matplotlib.use('Agg')
    panels = draw(entries, args.work_dir.resolve().name, out)
    print(f'{out}: {", ".join(panels)}')
