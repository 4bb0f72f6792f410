"""Train a 1-bit detector on a folder of images with boxes, pack it into one file, and score and time that file.

    rebnn fit my_images
    rebnn fit my_images --base two-stage
    rebnn fit my_images --teacher --epochs 12

It prints and runs new-config, train (for photographs a full-precision teacher first), export, choose and curves.
The best epoch by validation AP is packed, and training stops early when nothing improves. After an interruption the
same command continues. To train again after an edit of the config, first remove its folder in work_dirs.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import inspect
import json
import shlex
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from rebnn_mm.cli.new_config_options import add_options, resolve_base
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import INTERRUPTED, CommandParser, RebnnError, report_errors, stop

if TYPE_CHECKING:
    from rich.table import Table

PATIENCE = 3
"""Validations without a better score, of about six in a training, after which it stops."""

PAINTED = 8
"""Validation images that are painted."""

INT8 = ('--int8', '--int8-layers', 'all', '--reduce-range')
"""How the zoo's detectors designed for one bit are packed."""

COLUMNS = {'1 bit': '1 bit, packed', 'fp32, int8': 'teacher, int8', 'fp32': 'teacher, fp32'}
"""Labels of the compared files, in the order of the table, and what it calls them."""


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('data', type=Path, help='folder with images and annotations (COCO, VOC, YOLO or CSV)')
    add_options(parser)
    parser.add_argument(
        '--teacher',
        action=argparse.BooleanOptionalAction,
        help='whether to train a full-precision teacher first, which doubles the time; default: yes, except for tiny '
        'with --augment microscope (given or chosen), which gains nothing',
    )
    parser.add_argument('--amp', action='store_true', help='train in mixed precision, as rebnn train --amp')
    return resolve_base(parser, parser.parse_args(), teacher=True)


@report_errors
def main() -> None:
    args = parse_args()
    program = sys.argv[0]
    try:
        configs = write(args)
        with claim(work_dir_of(configs[-1])):
            fit(configs, args.amp)
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        sys.argv[0] = program
        stop('the same command continues where this one stopped.', INTERRUPTED)


def claim(work_dir: Path) -> AbstractContextManager[object]:
    """Keep other fits out of a work dir as long as the context lasts."""
    work_dir.mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(work_dir / 'fit.lock').acquire(timeout=0)
    except Timeout:
        raise RebnnError('another rebnn fit is running here.', str(work_dir), 'Wait until it has ended.') from None


def fit(configs: list[Path], amp: bool) -> None:
    """Run all steps after the first; what is there is kept or renewed, and finished trainings are not repeated."""
    for config in configs:
        train(config, amp)
    config = configs[-1]
    work_dir, packed = work_dir_of(config), config.with_suffix('.onnx')
    pack(config, packed)
    files = {'1 bit': packed}
    if len(configs) > 1:
        files['fp32'] = work_dir / 'teacher.onnx'
        folder = work_dir_of(configs[0])
        run('export', configs[0], folder / 'best.pth', '-o', files['fp32'], log=folder / 'export.log')
    compared = work_dir / 'compared.json'
    rival = ['--int8-of', 'fp32'] if 'fp32' in files else []
    words = [f'{label}={path}' for label, path in files.items()]
    run('choose', config, *words, *rival, '--json', compared, '--cfg-options', 'test_evaluator.classwise=True')
    run('curves', work_dir)
    paint(config, packed, work_dir / 'painted')
    show(config, packed, json.loads(compared.read_text(encoding='utf-8')))


def run(name: str, *words: object, log: Path | None = None) -> None:
    """Run a command of ours in this process, printed as one would type it; its output may go to a file."""
    line = [name, *map(str, words)]
    print(f'\n$ rebnn {shlex.join(line)}' + (f' > {shlex.quote(str(log))}' if log else ''), flush=True)
    sys.argv = [f'rebnn {name}', *line[1:]]
    with log.open('w', encoding='utf-8') if log else nullcontext() as file, redirect_stdout(file or sys.stdout):
        command = importlib.import_module(f'rebnn_mm.cli.{name.replace("-", "_")}').main
        inspect.unwrap(command)()  # its errors are reported by this command, which knows of --traceback


def write(args: argparse.Namespace) -> list[Path]:
    """The configs in the order of training: written, or kept where one has been edited."""
    from rebnn_mm.cli.new_config import config_of, write_configs, written_here
    from rebnn_mm.utils.config_file import read_config

    out = config_of(args)
    if work_dir_of(out).is_dir():
        with claim(work_dir_of(out)):  # another fit still reads what would be written over
            pass
    teacher = out.with_name(f'{out.stem}_teacher.py')
    there = [path for path in (teacher, out) if path.is_file()]
    if out in there and not all(map(written_here, there)):
        print(f'config: {out} is kept as it was edited; options for a new one have no effect')
        return there if 'teacher' in read_config(out).model else [out]
    return write_configs(args, PATIENCE)


def work_dir_of(config: Path) -> Path:
    """Name the folder that ``rebnn train`` writes to."""
    return Path('work_dirs', config.stem)


def train(config: Path, amp: bool) -> None:
    """Train a config to its end, unless that is done, and keep the checkpoint of its best epoch as ``best.pth``."""
    work_dir = work_dir_of(config)
    done, started, digest = work_dir / 'finished.txt', work_dir / 'started.txt', digest_of(config)
    begun = (work_dir / 'last_checkpoint').is_file()
    if any(path.is_file() and path.read_text().strip() != digest for path in ([done, started] if begun else [done])):
        what = f'{work_dir} has a training of another {config.name}, or of other labels.'
        raise RebnnError(what, fix='Remove it to train again.')
    if done.is_file():
        print(f'\n{config} is trained: {work_dir / "best.pth"}')
        return
    if not begun:
        with whole_file(started) as part:
            part.write_text(f'{digest}\n')
    run('train', config, '--work-dir', work_dir, *(['--resume'] if begun else []), *(['--amp'] if amp else []))
    best = max(work_dir.glob('best_*.pth'), key=lambda path: path.stat().st_mtime, default=None)
    # No detection in any validation gives no score.
    last = work_dir / Path((work_dir / 'last_checkpoint').read_text().strip()).name
    shutil.copy(best or last, work_dir / 'best.pth')
    with whole_file(done) as part:  # an empty one would say that another config was trained
        part.write_text(f'{digest}\n')


def digest_of(config: Path) -> str:
    """Digest what a training depends on: the config, and the labels next to it."""
    labels = [config.with_name(f'{config.stem.removesuffix("_teacher")}_{split}.json') for split in ('train', 'val')]
    content = [path.read_bytes() for path in (config, *labels) if path.is_file()]
    return hashlib.sha256(b'\0'.join(content)).hexdigest()[:16]


def pack(config: Path, packed: Path) -> None:
    """Export the best epoch; of a detector designed for one bit with the rest in int8, unless that spoils it."""
    from mmengine.config import Config

    folder = work_dir_of(config)
    words, log = (config, folder / 'best.pth', '-o', packed, '--half', '--fast'), folder / 'export.log'
    if Config.fromfile(config).model.backbone.type.endswith('OneBitBackbone'):
        try:
            return run('export', *words, *INT8, log=log)
        except RebnnError as error:
            print(f'note: packed without int8, because {error}')
    return run('export', *words, log=log)


def paint(config: Path, packed: Path, folder: Path) -> None:
    """Paint what the file finds on the first validation images, as ``rebnn run`` does."""
    from mmengine.config import Config

    from rebnn_mm.deploy import Detector, load
    from rebnn_mm.deploy.draw import save
    from rebnn_mm.deploy.image import read_image

    about, detector = Config.fromfile(config).val_dataloader.dataset, load(packed)
    assert isinstance(detector, Detector)
    images = json.loads(Path(about.ann_file).read_text(encoding='utf-8'))['images'][:PAINTED]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, image in enumerate(images, 1):
        photo = read_image(Path(about.data_root, image['file_name']))
        save(detector(photo).at_least(0.3).draw(photo), folder / f'{number}_{Path(image["file_name"]).stem}.png')


def show(config: Path, packed: Path, compared: dict[str, Any]) -> None:
    """Print the table, and how to go on."""
    from mmengine.config import Config

    from rebnn_mm.utils.console import plain_console

    print()
    data = Config.fromfile(config)
    labels = [Path(loader.dataset.ann_file) for loader in (data.val_dataloader, data.test_dataloader)]
    held_out = len({path.read_bytes() if path.is_file() else path for path in labels}) == 2
    plain_console(width=100).print(table_of(compared, 'test' if held_out else 'validation'))
    if not held_out:
        print('note: no images are for the test alone; the best epoch was chosen on these images')
    if not compared['scores'][compared['keys']['1 bit']]:
        print(f'note: {packed} finds nothing yet: train longer (--epochs)')
    work_dir = work_dir_of(config)
    file, folder = shlex.quote(str(packed)), shlex.quote(str(work_dir))
    print(f'file:      {packed}')
    print(f'curves:    {work_dir / "curves.png"}')
    print(f'painted:   {work_dir / "painted"}')
    print(f'config:    {config}; edit it, remove {work_dir}, and fit again')
    print('go on:')
    print(f'  rebnn run {file} photo.jpg --out painted.png     # needs no PyTorch')
    print(f'  rebnn test-packed {shlex.quote(str(config))} {file}')
    print(f'  rebnn detect photo.jpg {folder}/best.pth')


def table_of(compared: dict[str, Any], images: str) -> Table:
    """The compared files, a column each: AP, AP of each class, milliseconds and megabytes."""
    from rich.table import Table

    points = {point['label']: point for point in compared['points']}
    labels = [label for label in COLUMNS if label in points]
    scores = {label: compared['scores'][compared['keys'][label]] for label in labels}
    table = Table('', *(COLUMNS[label] for label in labels), title=f'On the {images} images, one thread')
    rows = {'AP': 'coco/bbox_mAP', 'AP50': 'coco/bbox_mAP_50'}
    own = dict.fromkeys(key for given in scores.values() for key in given if key.endswith('_precision'))
    rows |= {f'AP, {key.removeprefix("coco/").removesuffix("_precision")}': key for key in own}
    for name, key in rows.items():
        # mmdet gives no score at all to a detector that finds nothing.
        values = [scores[label].get(key, -1) if scores[label] else 0 for label in labels]
        table.add_row(name, *(f'{100 * value:.1f}' if value >= 0 else '-' for value in values))
    table.add_row('ms per image', *(f'{points[label]["ms"]:.1f}' for label in labels))
    table.add_row('MB', *(f'{points[label]["megabytes"]:.2f}' for label in labels))
    return table
