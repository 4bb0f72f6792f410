"""Check the annotations of a folder of images with boxes, and write a config for it.

    rebnn new-config --data my_images --out my.py
    rebnn train my.py

    rebnn new-config --data my_images --out my.py --teacher
    rebnn train my_teacher.py && rebnn train my.py

    rebnn new-config --data my_images --out my.py --base two-stage --teacher --start classifier.pth

The folder holds images and annotations at any depth: JSON files of COCO's form, XML files of VOC, YOLO labels or CSV
files. They are not changed: the checked annotations are written next to the config, as my_train.json and my_val.json.
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
        'accurate on photographs, in twice the time',
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
        help='detector to build: tiny, nano or small, designed for one bit; two-stage, which is slower; or a '
        'config; default: %(default)s',
    )
    for split in ('train', 'val', 'test'):
        parser.add_argument(f'--{split}', type=Path, help=f'COCO or CSV file of the {split} images, if not named so')
    parser.add_argument(
        '--label-with',
        metavar='ONNX',
        help='a detector that labels images without labels, in labelled.json in the folder: a file by rebnn export, '
        'or a YOLOX with raw output',
    )
    parser.add_argument('--classes', nargs='+', default=(), help='classes that --label-with labels; default: all')
    parser.add_argument(
        '--size',
        nargs=2,
        type=positive,
        metavar=('W', 'H'),
        help="largest size of the network's input; default: chosen from the data",
    )
    parser.add_argument(
        '--start',
        metavar='CHECKPOINT',
        help='a detector or classifier of the same blocks, from which the detector (or its teacher) starts: better '
        'with few images; rebnn train rebnn_mm::pretrain/resnet18_teacher_classes.py makes one for two-stage; none: '
        'random weights; default for tiny: one of the package',
    )
    parser.add_argument(
        '--augment',
        choices=('photos', 'microscope', 'none'),
        help='photos: vary size, crop and colour; microscope: flip in all directions; none: flip left and right; '
        'default: photos if sizes of images, or of objects of one class, differ much, otherwise microscope',
    )
    parser.add_argument(
        '--negatives',
        action=argparse.BooleanOptionalAction,
        default=True,
        help='also train on images without a box, as background; default: yes',
    )
    parser.add_argument('--epochs', type=positive, help=f'default: as many as make {STEPS} steps, at least 12')
