"""Write a trained model as one packed file that runs without PyTorch.

rebnn export configs/imagenet/resnet18_rebnn_imagenet.py work_dirs/resnet18_rebnn_imagenet/epoch_200.pth -o r18.onnx
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path

from rebnn_mm.deploy.run import positive
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.export.engines import ENGINES, find_writer
from rebnn_mm.export.options import PLAIN, Options
from rebnn_mm.export.passes.int8 import TIERS
from rebnn_mm.utils.command_line import TESTING, add_options, check_sections, check_writable, config_file
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.console import plain_console

SWITCHES = [option for option in fields(Options) if 'about' in option.metadata]
"""Options that are on or off; the flag of each changes its default."""


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config file of mmdet, mmpretrain or GLUE')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument('-o', '--out', required=True, type=Path, help='the file to write')
    for option in SWITCHES:
        flag = f'--{"no-" if option.default else ""}{option.name.replace("_", "-")}'
        action = 'store_false' if option.default else 'store_true'
        parser.add_argument(flag, dest=option.name, action=action, help=option.metadata['about'])
    parser.add_argument(
        '--int8',
        nargs='*',
        metavar='IMAGES',
        help='full-precision layers in 8 bits, calibrated on these images: files, folders or lists (.txt, one path '
        "per line); if none are given, on the config's training set",
    )
    parser.add_argument(
        '--int8-layers',
        choices=TIERS,
        help='with --int8: heads (what never becomes a sign), all (shortcuts and others, too), stem (the first layer, '
        f'too); default: {TIERS[0]}',
    )
    parser.add_argument(
        '--score',
        action='store_true',
        help="with --int8: score the file on the config's test set, with and without int8",
    )
    parser.add_argument('--format', default='onnx', help='kind of file (default: onnx, the packed file)')
    parser.add_argument(
        '--image',
        nargs='+',
        default=[],
        help="images to compare with PyTorch on; default: some of the config's data set, or noise",
    )
    parser.add_argument(
        '--text',
        nargs='+',
        default=[],
        help='sentences to compare with PyTorch on, in addition to random tokens; a tab separates the two of a pair',
    )
    parser.add_argument(
        '--shape', nargs=2, type=positive, metavar=('H', 'W'), help='size of an image; default: from the test pipeline'
    )
    add_options(parser)
    return parser.parse_args()


def scorer(args: argparse.Namespace) -> Callable[[bytes], Mapping[str, float]]:
    """Return a function that scores a packed file on the config's test set."""
    from rebnn_mm.deploy import load
    from rebnn_mm.evaluation.packed_predictor import score
    from rebnn_mm.utils.data_files import check_data

    cfg = read_config(args.config, args.cfg_options)
    check_sections(cfg, TESTING)
    check_data(cfg, ['test'])
    return lambda data: score(cfg, load(data))


@report_errors
def main() -> None:
    args = parse_args()
    warnings.simplefilter('ignore', FutureWarning)
    warnings.filterwarnings('ignore', 'torch.meshgrid: in an upcoming')
    console = plain_console(width=120)
    from rebnn_mm.export.source import load_source

    if args.format not in ENGINES:
        raise RebnnError(f'--format {args.format} does not exist; there are {", ".join(ENGINES)}.')
    for flag, given, needed, there in (
        ('--score', args.score, '--int8', args.int8 is not None),
        ('--int8-layers', args.int8_layers, '--int8', args.int8 is not None),
        ('--reduce-range', args.reduce_range, '--int8', args.int8 is not None),
        ('--half-stem', args.half_stem, '--fast', args.fast),
    ):
        if given and not there:
            raise RebnnError(f'{flag} requires {needed}; give both.')
    check_writable(args.out, inputs=[args.config, args.checkpoint, *args.image, *(args.int8 or [])])
    with user_errors(output=args.out):
        source = load_source(
            args.config,
            args.checkpoint,
            options=args.cfg_options,
            images=args.image,
            texts=args.text,
            calibration=args.int8,
            size=None if args.shape is None else (args.shape[0], args.shape[1]),
        )
        if args.score:
            source = source._replace(score=scorer(args))
        options = Options(
            int8=PLAIN.int8 if args.int8 is None else args.int8_layers or TIERS[0],
            **{option.name: getattr(args, option.name) for option in SWITCHES},
        )
        find_writer(args.format)(source, args.out, options, console)
