"""Write a trained model as one packed file that runs without PyTorch.

python tools/export.py configs/resnet18_rebnn_imagenet.py work_dirs/resnet18_rebnn_imagenet/epoch_200.pth -o r18.onnx
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import fields
from pathlib import Path

from mmengine.config import DictAction
from rich.console import Console

from rebnn_mm.export import ENGINES
from rebnn_mm.export.options import Options
from rebnn_mm.utils.command_line import stop_if, unwritable
from rebnn_mm.utils.config_mistake import explained


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='config file of mmdet, mmpretrain or GLUE')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument('-o', '--out', required=True, type=Path, help='the file to write')
    for option in fields(Options):
        parser.add_argument(
            option.metadata['flag'],
            dest=option.name,
            action='store_false' if option.default else 'store_true',
            help=option.metadata['about'],
        )
    parser.add_argument('--format', default='onnx', help='kind of file (default: onnx, the packed file)')
    parser.add_argument('--image', nargs='+', default=[], help='images to compare with PyTorch on; default: noise')
    parser.add_argument(
        '--text',
        nargs='+',
        default=[],
        help='sentences to compare with PyTorch on, beside random tokens; a tab parts the two of a pair',
    )
    parser.add_argument(
        '--shape', nargs=2, type=int, metavar=('H', 'W'), help='size of an image; default: from the test pipeline'
    )
    parser.add_argument(
        '--cfg-options', nargs='+', action=DictAction, help='override entries of the config: key=value pairs'
    )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    warnings.simplefilter('ignore', FutureWarning)
    console = Console(width=120)
    from rebnn_mm.export.source import load_source

    if args.format not in ENGINES:
        stop_if(f'--format {args.format} does not exist; there are {", ".join(ENGINES)}.')
    if not args.out.parent.is_dir():
        stop_if(f'there is no folder {args.out.parent} to write into.')
    stop_if(unwritable(args.out))
    try:
        with explained(output=args.out):
            source = load_source(
                args.config,
                args.checkpoint,
                options=args.cfg_options,
                images=args.image,
                texts=args.text,
                size=None if args.shape is None else (args.shape[0], args.shape[1]),
            )
            options = Options(**{option.name: getattr(args, option.name) for option in fields(Options)})
            ENGINES[args.format].writer()(source, args.out, options, console)
    except (ValueError, OSError) as error:
        sys.stdout.flush()
        stop_if(str(error))


if __name__ == '__main__':
    main()
