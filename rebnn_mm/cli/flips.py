"""Projects how often the signs of configs flip over their whole schedule, from a few hundred real steps.

    rebnn flips configs/bccd/faster_rcnn_r18_rebnn_bccd.py
    rebnn flips configs/coco/faster_rcnn_r18_rebnn_coco.py --batch-size 2 --image-size 320
    rebnn flips configs/cifar10/*.py --json flips.json

Trains with the config's own model, optimizer and hooks, on its own data if they are here, else on the images of
demo/coco_sample or made-up texts. One sentence for each config says when its flips cannot suffice.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from rebnn_mm.analysis.flip_measurement import NothingToMeasure, measure_flips
from rebnn_mm.analysis.flip_projection import ENOUGH
from rebnn_mm.analysis.flip_report import Row, flip_table, read_rows, result_row, rows_json, with_row
from rebnn_mm.analysis.flip_setup import Options
from rebnn_mm.deploy.run import positive
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import add_options, check_writable, config_file
from rebnn_mm.utils.config_file import check_config_file, name_choices, read_config
from rebnn_mm.utils.config_mistake import user_errors

SAMPLE = Path(__file__).resolve().parents[2] / 'demo' / 'coco_sample'


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
    options = Options(
        steps=args.steps,
        data=args.data,
        sample=SAMPLE,
        batch_size=args.batch_size,
        image_size=args.image_size,
        length=args.length,
        checkpoint=args.checkpoint,
        seed=args.seed,
    )
    task = progress.add_task(Path(config).stem, total=args.steps)
    try:
        with user_errors(cfg):
            measured = measure_flips(cfg, options, lambda done: progress.update(task, completed=done))
    finally:
        progress.remove_task(task)
    row = result_row(name_choices(config), cfg, measured, options, args.label, args.enough)
    row['notes'] += [f'{key}={value}' for key, value in changed.items()]
    return row


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
