"""Write a config for a folder of images with boxes: annotations checked, classes and anchors taken from them.

    rebnn new-config --data my_images --out my.py
    rebnn train my.py

    rebnn new-config --data my_images --out my.py --teacher
    rebnn train my_teacher.py && rebnn train my.py

    rebnn new-config --data my_images --out my.py --base two-stage --teacher --start classifier.pth

The folder holds images and JSON files of COCO's form, XML files of VOC, labels of YOLO or CSV files, at any depth.
Annotations are not changed: what is trained on is written next to the config, as my_train.json and my_val.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rebnn_mm.deploy.run import positive
from rebnn_mm.errors import CommandParser, did_you_mean

BASES = {
    **{size: f'rebnn_mm::one_bit/{size}{{}}_bccd.py' for size in ('tiny', 'nano', 'small')},
    'two-stage': 'rebnn_mm::bccd/faster_rcnn_r18_rebnn{}_bccd.py',
}
"""Our detectors by name, the default first: without a teacher, and with ``_taught`` filled in."""

STARTS = {
    'tiny': dict(photos='rebnn://one_bit_tiny_photos', microscope='rebnn://one_bit_tiny', none='rebnn://one_bit_tiny')
}
"""What the teacher of a base starts from, by kind of images, if nothing else is asked for."""

BINARY_STARTS = dict.fromkeys(STARTS['tiny'].values(), 'rebnn://one_bit_tiny_photos_1bit')
"""By the start of its teacher, what the 1-bit detector starts from, with such a teacher or without."""

STEPS = 1200
"""As many steps as the detectors of this project are trained from scratch with."""


def parse_args() -> argparse.Namespace:
    """Parse the arguments or print the help, apart from what does the work, whose imports take seconds."""
    parser = CommandParser(description=__doc__)
    parser.add_argument('--data', type=Path, required=True, help='folder with images and annotations')
    add_options(parser)
    parser.add_argument(
        '--teacher',
        action='store_true',
        default=None,
        help='write two configs, a full-precision teacher and the 1-bit student that learns from it: more '
        'accurate on photographs, for twice the training',
    )
    return resolve_base(parser, parser.parse_args(), teacher=False)


def resolve_base(parser: argparse.ArgumentParser, args: argparse.Namespace, teacher: bool) -> argparse.Namespace:
    """Fill in the config that a name given as ``--base`` stands for; refuse a flag about a teacher with a config."""
    taught = teacher if args.teacher is None else args.teacher
    starts = STARTS.get(args.base, {}) if args.start is None else {}
    args.starts = starts if taught else {kind: BINARY_STARTS[start] for kind, start in starts.items()}
    if args.start == 'none':
        args.start = None
    if args.classes and not args.label_with:
        parser.error('--classes goes with --label-with.')
    if args.label_with and (args.train or args.val or args.test):
        parser.error('--label-with labels all images of the folder; leave out --train, --val and --test.')
    if args.base in BASES:
        args.base = BASES[args.base].format('_taught' if taught else '')
        return args
    names = ', '.join(BASES)
    near = did_you_mean(args.base, BASES)
    if near and not Path(args.base).exists():
        parser.error(f'--base {args.base} is none of {names}, and no config. {near}')
    if args.teacher is not None:
        parser.error(f'--{"teacher" if args.teacher else "no-teacher"} goes with {names}; {args.base} itself says it.')
    return args


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what is chosen about a config."""
    parser.add_argument('--out', type=Path, help='config to write; default: <folder name>.py here')
    parser.add_argument(
        '--base',
        default=next(iter(BASES)),
        help='detector to build on: tiny, nano or small, of one stage and designed for one bit; two-stage, which is '
        'slower; or a config; default: %(default)s',
    )
    for split in ('train', 'val', 'test'):
        parser.add_argument(f'--{split}', type=Path, help=f'COCO or CSV file of the {split} images, if not named so')
    parser.add_argument(
        '--label-with',
        metavar='ONNX',
        help='a detector that gives the boxes where the images have none, to labelled.json in the folder: one of '
        'rebnn export, or the raw output of a YOLOX',
    )
    parser.add_argument('--classes', nargs='+', default=(), help='those of its classes that it labels; default: all')
    parser.add_argument(
        '--size',
        nargs=2,
        type=positive,
        metavar=('W', 'H'),
        help="largest size of the network's input; default: from data",
    )
    parser.add_argument(
        '--start',
        metavar='CHECKPOINT',
        help='a detector or classifier of the same blocks that the detector starts from, or its teacher: better where '
        'there are few images; rebnn train rebnn_mm::pretrain/resnet18_teacher_classes.py makes one for two-stage; '
        "none: random weights; default for tiny: the package's",
    )
    parser.add_argument(
        '--augment',
        choices=('photos', 'microscope', 'none'),
        help='photos: training images of changing sizes, cuts and colours; microscope: flips in all directions; '
        'none: left-right flips; default: photos or microscope, by how much the sizes of objects of one class differ',
    )
    parser.add_argument(
        '--negatives',
        action=argparse.BooleanOptionalAction,
        default=True,
        help='train on images without a box as well, as background; default: yes',
    )
    parser.add_argument('--epochs', type=positive, help=f'default: as many as make {STEPS} steps')
