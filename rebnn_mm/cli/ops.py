"""Count size and operations of a config's network, layer by layer. It needs neither data nor weights.

rebnn ops configs/coco/faster_rcnn_r18_rebnn_coco.py
rebnn ops configs/imagenet/resnet18_rebnn_imagenet.py --format json --out ops.json
rebnn ops configs/glue/rebnn.py --tokens 128
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from mmengine.config import Config

from rebnn_mm.analysis.config_network import build_network, input_shape, text_length
from rebnn_mm.analysis.cost_report import cost_dict, cost_table
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.run import positive
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import add_options, check_writable, config_file
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config of mmdet, mmpretrain or this project')
    parser.add_argument(
        '--shape',
        type=int,
        nargs=2,
        metavar=('H', 'W'),
        help='input of the network, padding included; default: what the test pipeline of the config makes',
    )
    parser.add_argument('--tokens', type=positive, help='length of a text; default: the longest that the config takes')
    parser.add_argument('--rois', type=int, help='regions of a second stage; default: test_cfg.rpn.max_per_img')
    parser.add_argument('--format', choices=['table', 'json'], default='table')
    parser.add_argument('--out', type=Path, help='write to this file instead of the terminal')
    add_options(parser)
    return parser.parse_args()


def shape_of_input(cfg: Config, args: argparse.Namespace) -> tuple[tuple[int, ...], str]:
    """Height and width of an image or the tokens of a text, and where they are from."""
    text = text_length(cfg)
    if text is None:
        if args.tokens is not None:
            raise RebnnError('the network takes images: use --shape HEIGHT WIDTH in place of --tokens.')
        height, width, source = (*args.shape, '--shape') if args.shape else input_shape(cfg)
        return (height, width), source
    if args.shape:
        raise RebnnError('the network takes texts: use --tokens NUMBER in place of --shape.')
    return ((args.tokens,), '--tokens') if args.tokens else ((text[0],), text[1])


@report_errors
def main() -> None:
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    if args.out is not None:
        check_writable(args.out, inputs=[args.config])
    with user_errors(cfg):
        built = build_network(cfg)
    shape, source = shape_of_input(cfg, args)
    try:
        network = network_cost(built, shape, args.rois)
    except RuntimeError as problem:
        raise RebnnError(
            f'the network does not run on {"x".join(map(str, shape))}: {first_sentence(problem)}.',
            args.config,
            'Give another input: --shape HEIGHT WIDTH, or --tokens NUMBER',
        ) from problem
    if args.format == 'table':
        wide = shutil.get_terminal_size().columns if args.out is None and sys.stdout.isatty() else None
        text = cost_table(network, source, wide)
    else:
        text = json.dumps(cost_dict(network, source), indent=2) + '\n'
    if args.out is None:
        print(text, end='')
        return
    with whole_file(args.out) as part:
        part.write_text(text)
    print(f'{args.out}: {args.format} of {len(network.products)} layers')
