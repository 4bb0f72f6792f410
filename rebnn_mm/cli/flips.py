"""Project how often signs will flip over a config's whole schedule, from a few hundred steps.

    rebnn flips configs/bccd/faster_rcnn_r18_rebnn_bccd.py
    rebnn flips configs/coco/faster_rcnn_r18_rebnn_coco.py --batch-size 2 --image-size 320

It trains with the config's own model, optimizer, hooks and data, and warns if the flips will be too few.
"""

from __future__ import annotations

import argparse

from rich.progress import track

from rebnn_mm.analysis.flip_measurement import Options, measure_flips
from rebnn_mm.analysis.flip_projection import ENOUGH, round_percent, verdict
from rebnn_mm.deploy.run import positive
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import add_options, config_file
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.console import plain_console


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config that trains binary layers')
    parser.add_argument('--steps', type=int, default=200, help='flips count in the second half; default: %(default)s')
    parser.add_argument('--batch-size', type=positive, help="images or texts in a step; default: the config's")
    parser.add_argument('--image-size', type=positive, help="longest side at most, in pixels; default: the config's")
    parser.add_argument(
        '--from', dest='checkpoint', metavar='CHECKPOINT', help="weights to start from; default: the config's"
    )
    parser.add_argument('--enough', type=float, default=ENOUGH, help='flips needed, in %%; default: %(default)s')
    parser.add_argument('--seed', type=int, default=0, help='default: %(default)s')
    add_options(parser)
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    if args.steps < 4:
        raise RebnnError('--steps must be at least 4, of which the last half is counted.')
    cfg = read_config(args.config, args.cfg_options)
    options = Options(args.steps, args.batch_size, args.image_size, args.checkpoint, args.seed)
    bar = iter(track(range(args.steps), 'steps', console=plain_console(stderr=True), transient=True))
    with user_errors(cfg):
        measured = measure_flips(cfg, options, lambda done: next(bar))
    projection = measured.projection
    schedule = projection.schedule
    print(f'{args.config}: {verdict(projection, cfg.optim_wrapper, args.enough)}.')
    print(
        f'  {round_percent(projection.step_percent)} % flip in a step at the highest rate, and the {schedule.steps:,} '
        f'steps of the schedule count as {schedule.full_steps:,.0f} of these.'
    )
    print('  Measured in ' + '; '.join([f'{args.steps} steps of {measured.batch_size}', *measured.notes]) + '.')
