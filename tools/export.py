"""Write a trained model as one packed file that runs without PyTorch.

python tools/export.py configs/resnet18_rebnn_imagenet.py work_dirs/resnet18_rebnn_imagenet/epoch_200.pth -o r18.onnx
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from mmengine.config import DictAction
from rich.console import Console

from rebnn_mm.utils.command_line import stop_if, unwritable
from rebnn_mm.utils.config_mistake import explained


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='config file of mmdet, mmpretrain or GLUE')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument('-o', '--out', required=True, type=Path, help='the file to write')
    parser.add_argument('--half', action='store_true', help='store real constants in half precision')
    parser.add_argument(
        '--fast', action='store_true', help='faster kernels for real-valued layers, equal up to float32 rounding'
    )
    parser.add_argument(
        '--half-stem', action='store_true', help='with --fast: products of 16-bit numbers in the first layer'
    )
    parser.add_argument('--no-fuse', action='store_true', help='one operator per binary layer, for debugging')
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
    from rebnn_mm.export.formats import FORMATS
    from rebnn_mm.export.options import Options
    from rebnn_mm.export.source import load_source

    if args.format not in FORMATS:
        stop_if(f'--format {args.format} does not exist; there are {", ".join(FORMATS)}.')
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
            options = Options(args.half, not args.no_fuse, args.fast, args.half_stem)
            FORMATS[args.format](source, args.out, options, console)
    except (ValueError, OSError) as error:
        sys.stdout.flush()
        stop_if(str(error))


if __name__ == '__main__':
    main()
