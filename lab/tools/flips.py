"""Projects the flips of several configs as ``rebnn flips`` does, also where their data and weights are not at hand.

python -m lab.tools.flips configs/cifar10/*.py --json flips.json
python -m lab.tools.flips configs/coco/faster_rcnn_r18_rebnn_coco.py --batch-size 2 --image-size 320

Data that are not here are replaced by the images of demo/coco_sample or made-up texts, weights by random ones.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import init_default_scope
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lab.machine import versions
from lab.tools.stand_in_data import put_data_in, with_weights_at_hand
from rebnn_mm.analysis.flip_measurement import Measurement, NothingToMeasure, Options, measure_flips
from rebnn_mm.analysis.flip_projection import ENOUGH, round_percent, verdict
from rebnn_mm.deploy.run import positive
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import add_options, check_writable, config_file
from rebnn_mm.utils.config_file import VARIABLE, check_config_file, config_path, find_bases, read_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.data_files import check_data
from rebnn_mm.utils.encoders import check_encoders

SAMPLE = Path(__file__).resolve().parents[2] / 'demo' / 'coco_sample'

DISTRIBUTIONS = ('torch', 'onedl-mmengine', 'onedl-mmcv', 'onedl-mmdetection', 'onedl-mmpretrain', 'transformers')
WIDTH = 150
"""Width of the table where no terminal says its own."""

Row = dict[str, Any]

KEPT = ('config', 'label', 'percent', 'schedule')
"""Entries by which a row of this tool is known."""


def _variables(path: Path) -> dict[str, str]:
    found = dict(VARIABLE.findall(path.read_text()))
    for _, base in find_bases(path):
        if base.is_file():
            found |= _variables(base)
    return found


def name_choices(path: str | Path) -> str:
    """Name a config as in a shell: after the variables that choose its parts and are not at their default."""
    chosen = [
        (name, os.environ.get(name, default), default) for name, default in _variables(config_path(path)).items()
    ]
    return ' '.join([*(f'{name}={value}' for name, value, default in chosen if value != default), str(path)])


def result_row(
    config: str, cfg: Config, measured: Measurement, options: Options, label: str, data: str, enough: float
) -> Row:
    """All that is told of one config, in plain values."""
    projection, schedule = measured.projection, measured.projection.schedule
    wrapper = cfg.optim_wrapper
    optimizer = wrapper.get('optimizer', {})
    rate = f' {optimizer.lr:g}' if 'lr' in optimizer else ''  # else the optimizer's own
    return {
        'config': config,
        'label': label,
        'optimizer': f'{optimizer.get("type", "")}{rate}',
        'schedule': schedule._asdict(),
        'steps': options.steps,
        'batch_size': measured.batch_size,
        'data': data,
        'notes': list(measured.notes),
        'seed': options.seed,
        'seconds': round(measured.seconds, 1),
        'enough': enough,
        'percent': projection.percent,
        'step_percent': projection.step_percent,
        'least': projection.least.name,
        'least_percent': projection.layer_percent(projection.least.name),
        'silent': projection.silent,
        'verdict': verdict(projection, wrapper, enough),
        'layers': [layer._asdict() for layer in projection.layers],
        'made': {'date': datetime.date.today().isoformat(), **versions(DISTRIBUTIONS)},
    }


def read_rows(file: Path) -> list[Row]:
    """Load what earlier calls wrote; nothing if there is no file."""
    if not file.is_file():
        return []
    try:
        rows = json.loads(file.read_text())
    except ValueError:
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {*KEPT} <= {*row} for row in rows):
        raise RebnnError(f'{file} holds no results of this tool. Name another file with --json.')
    return rows


def with_row(rows: Sequence[Row], new: Row) -> list[Row]:
    """The rows with one more, which takes the place of that of its config and label."""
    keys = [(row['config'], row['label']) for row in rows]
    key = (new['config'], new['label'])
    if key not in keys:
        return [*rows, new]
    return [new if this == key else row for this, row in zip(keys, rows, strict=True)]


def rows_json(rows: Sequence[Row]) -> str:
    """The rows, one per line."""
    return '[\n' + ',\n'.join(json.dumps(row) for row in rows) + '\n]\n'


def flip_table(rows: Iterable[Row], width: int | None = None) -> str:
    """A table for the terminal, and a sentence for each config below it."""
    table = Table(box=None, pad_edge=False, header_style='bold')
    columns = ('config', 'label', 'rate', 'steps', 'of them at the highest rate', 'flips a step, %', 'flips in all, %')
    for name in (*columns, 'layer with the fewest, %'):
        table.add_column(name, justify='left' if name in ('config', 'label', 'rate') else 'right', overflow='fold')
    rows = list(rows)
    for row in rows:
        table.add_row(
            re.sub(r'\S*/', '', row['config']).removesuffix('.py'),
            row['label'],
            *list_numbers(row),
            round_percent(row['percent']),
            tell_least(row),
        )
    console = Console(width=width or WIDTH, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table)
        console.print()
        for row in rows:
            console.print(f'{row["config"]}: {row["verdict"]}.', markup=False, soft_wrap=True)
            console.print(f'  {tell_measurement(row)}', markup=False, soft_wrap=True)
    return '\n'.join(line.rstrip() for line in captured.get().splitlines()) + '\n'


def list_numbers(row: Row) -> list[str]:
    """Optimizer, steps, steps at the highest rate, and percent that flip in a step."""
    schedule = row['schedule']
    at_highest = schedule['steps'] * schedule['mean'] / schedule['highest']
    return [row['optimizer'], f'{schedule["steps"]:,}', f'{at_highest:,.0f}', round_percent(row['step_percent'])]


def tell_least(row: Row) -> str:
    """Percent and name of the layer with the fewest flips."""
    return f'{round_percent(row["least_percent"])} ({row["least"]})'


def tell_measurement(row: Row) -> str:
    """Steps, batch and data of a measurement."""
    about = '; '.join([row['data'], *row['notes']])
    return f'{row["steps"]} steps of {row["batch_size"]} on {about}'


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument(
        'configs', type=config_file, nargs='+', metavar='CONFIG', help='configs that train binary layers'
    )
    parser.add_argument('--steps', type=int, default=200, help='steps to take; flips count in the last half')
    parser.add_argument('--data', choices=['sample', 'config'], help="default: the config's own if they are here")
    parser.add_argument('--batch-size', type=positive, help="images or texts in a step; default: the config's")
    parser.add_argument('--image-size', type=positive, help="longest side at most, in pixels; default: the config's")
    parser.add_argument('--length', type=positive, help='training images of the data set, where that is not known')
    parser.add_argument(
        '--from', dest='checkpoint', metavar='CHECKPOINT', help="weights to start from; default: the config's"
    )
    parser.add_argument('--enough', type=float, default=ENOUGH, help='flips over the schedule that are needed, in %%')
    parser.add_argument('--label', default='', help='what the rows are called, such as "as shipped"')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--json', type=Path, help='file that keeps the results of several calls, a row per config')
    add_options(parser)
    return parser.parse_args()


def measure_row(config: str, args: argparse.Namespace, progress: Progress) -> Row:
    """Train one config for some steps and project."""
    changed = args.cfg_options or {}
    cfg = read_config(config, changed)
    options = Options(args.steps, args.batch_size, args.image_size, args.checkpoint, args.seed)
    task = progress.add_task(Path(config).stem, total=args.steps)
    try:
        with user_errors(cfg), tempfile.TemporaryDirectory() as folder:
            init_default_scope(cfg.get('default_scope') or 'mmengine')
            notes = with_weights_at_hand(cfg, Path(folder), args.checkpoint)
            data = "the config's own"
            if args.data == 'sample' or (args.data is None and not _has_data(cfg)):
                data = put_data_in(cfg, SAMPLE, args.length)
            measured = measure_flips(cfg, options, lambda done: progress.update(task, completed=done))
    finally:
        progress.remove_task(task)
    row = result_row(name_choices(config), cfg, measured, options, args.label, data, args.enough)
    row['notes'] = [*notes, *row['notes'], *(f'{key}={value}' for key, value in changed.items())]
    return row


def _has_data(cfg: Config) -> bool:
    try:
        check_data(cfg, ['train'])
        check_encoders(cfg, ['train'])
    except RebnnError:
        return False
    return True


@report_errors
def main() -> None:
    args = parse_args()
    if args.steps < 4:
        raise RebnnError('--steps must be at least 4, of which the last half is counted.')
    for config in args.configs:
        check_config_file(config)
    if args.json:
        check_writable(args.json, inputs=args.configs)
    kept = read_rows(args.json) if args.json else []
    new: list[Row] = []
    failed = interrupted = False
    columns = TextColumn('{task.description}'), BarColumn(), TextColumn('{task.completed}/{task.total}')
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        for config in args.configs:
            try:
                row = measure_row(config, args, progress)
            except NothingToMeasure as nothing:
                print(f'{config}: {nothing}', file=sys.stderr)
                failed = failed or len(args.configs) == 1
            except (ValueError, RuntimeError, OSError, ImportError) as problem:
                print(f'{config}: {" ".join(str(problem).split())}', file=sys.stderr)
                failed = True
            except KeyboardInterrupt:
                print(f'stopped in {config}; what was finished before is kept.', file=sys.stderr)
                interrupted = True
                break
            else:
                new.append(row)
                # Read again, so that calls side by side keep each other's rows.
                kept = with_row(read_rows(args.json) if args.json else kept, row)
                if args.json:
                    with whole_file(args.json) as part:
                        part.write_text(rows_json(kept))
    if new:
        wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(flip_table(new, wide), end='')
    if failed or interrupted:
        sys.exit(130 if interrupted else 1)


if __name__ == '__main__':
    main()
