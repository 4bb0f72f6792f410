"""Train a 1-bit detector on real images, pack it, and compare the packed file with trained ones: `make demo`.

    python demo/run_demo.py                 # blood cells: from a random start to boxes on images it has never seen
    python demo/run_demo.py --data coco     # eight images of COCO, learned by heart

Every step is a command that is printed before it runs and works by itself. Each call starts afresh, in a new folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from rich.console import Console
from rich.table import Table

from rebnn_mm.analysis.figure_style import COLOURS, figure_style
from rebnn_mm.cli.curves import collect, read_entries
from rebnn_mm.deploy import Detections, load
from rebnn_mm.deploy.zoo import cards, zoo_path
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.score_table import print_scores

ROOT = Path(__file__).resolve().parents[1]
BLOOD_CELLS = 'configs/demo/faster_rcnn_r18_rebnn_blood_cells.py'
COCO = 'configs/demo/faster_rcnn_r18_rebnn_coco_sample.py'


def run(*command: object) -> None:
    """Print and run one command of ours; end the demo if it fails."""
    words = ['rebnn', *map(str, command)]
    print(f'\n$ {shlex.join(words)}\n', flush=True)
    script = [sys.executable, 'rebnn_command.py']
    done = subprocess.run([*script, *words[1:]], cwd=ROOT, env=environment(), check=False)
    if done.returncode != 0:
        raise RebnnError(f'the command above ended with exit code {done.returncode}; its message says why.')


def environment() -> dict[str, str]:
    """The environment of each command: without the GPU where mmcv's operators were built without CUDA."""
    from mmcv.ops import get_compiling_cuda_version

    if get_compiling_cuda_version() == 'not available':
        return {**os.environ, 'CUDA_VISIBLE_DEVICES': ''}
    return dict(os.environ)


def train(config: str, work_dir: Path, options: list[str]) -> Path:
    """Train; the last checkpoint."""
    run('train', config, '--work-dir', work_dir, *(['--cfg-options', *options] if options else []))
    return work_dir / Path((work_dir / 'last_checkpoint').read_text().strip()).name


def evaluate(config: str, checkpoint: Path, work_dir: Path, *options: object) -> dict[str, float]:
    """Test and return what it wrote."""
    run('test', config, checkpoint, '--work-dir', work_dir, *(['--cfg-options', *options] if options else []))
    (file,) = work_dir.glob('*/*.json')
    return dict(json.loads(file.read_text()))


def learn_blood_cells(work_dir: Path, options: list[str]) -> list[tuple[str, Path]]:
    """From a random start to a packed file that is scored, timed and compared with trained ones."""
    print(f'A 1-bit Faster R-CNN learns 205 photographs of blood from scratch; results go to {work_dir}.')
    print('Each line has the losses, the score on unseen images, and the time left.')
    checkpoint = train(BLOOD_CELLS, work_dir, options)
    scores = evaluate(BLOOD_CELLS, checkpoint, work_dir / 'test')
    packed, compared = work_dir / 'blood_cells.onnx', work_dir / 'compared.json'
    run('export', BLOOD_CELLS, checkpoint, '-o', packed)
    names = [f'zoo:{card["name"]}' for card in cards() if card['data']['name'] == 'BCCD']
    files = [f'this one, packed={packed}', *(f'{name} *={zoo_path(name)}' for name in names)]
    run('choose', BLOOD_CELLS, *files, '--json', compared, '--rounds', 2)
    painted = work_dir / 'blood_cells.png'
    paint(packed, checkpoint.parent, painted)
    show(scores, checkpoint, json.loads(compared.read_text())['points'])
    return [('packed file', packed), ('picture', painted)]


def show(scores: dict[str, float], checkpoint: Path, packed: list[dict[str, Any]]) -> None:
    """The table at the end: what was trained here, packed files, and the figures of their full-precision rival."""
    table = Table('', 'AP', 'ms', 'MB', title='72 photographs that none of them has seen')
    ap, ms = 100 * scores.get('coco/bbox_mAP', 0), 1000 * (scores['time'] - scores['data_time'])
    table.add_row('this one, in PyTorch', f'{ap:.1f}', f'{ms:.0f}', f'{checkpoint.stat().st_size / 1e6:.1f}')
    for point in packed:
        table.add_row(point['label'], *(f'{point[key]:.{digits}f}' for key, digits in NUMBERS.items()))
    page = (ROOT / 'docs/choose.md').read_text(encoding='utf-8')
    page = page[page.index('<!-- begin choice -->') : page.index('<!-- end choice -->')]
    for label, *numbers in (line.strip('| ').split(' | ') for line in page.splitlines() if line.startswith('| YOLOX')):
        table.add_row(f'{label} *', *(number.strip('*') for number in numbers))
    Console(width=100).print(table)
    print("* trained for 48 epochs, including the teacher's. The figures of YOLOX are those of docs/choose.md,")
    print('  perhaps of another machine.')


NUMBERS = {'score': 1, 'ms': 0, 'megabytes': 1}


def paint(packed: Path, work_dir: Path, out: Path) -> None:
    """An unseen photograph with the boxes of its annotations and those of the packed file, and the score by epoch."""
    from matplotlib import pyplot

    curve = collect(read_entries(sorted(work_dir.glob('*/vis_data/scalars.json'))), ('_mAP', '_mAP_50'))
    with figure_style():
        figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.2), width_ratios=[4, 4, 3])
        draw_cells(panels[:2], load(packed))
        for key, name in (('coco/bbox_mAP_50', 'AP50'), ('coco/bbox_mAP', 'AP')):
            steps, values = curve.get(key, ([], []))
            panels[2].plot(steps, [100 * value for value in values], marker='o', label=name)
        panels[2].set(title='24 of the unseen photographs', xlabel='training step', ylim=(0, 100))
        panels[2].legend()
        figure.savefig(out, dpi=150)
        pyplot.close(figure)


def draw_cells(panels: Any, detector: Any) -> None:
    """Draw an unseen photograph twice: with the boxes of its annotations, and with those that a packed file finds."""
    from matplotlib import pyplot
    from PIL import Image

    dataset = Config.fromfile(ROOT / BLOOD_CELLS).test_dataloader.dataset
    folder = ROOT / dataset.data_root
    about = json.loads((folder / dataset.ann_file).read_text())
    # The one with the most kinds of cells, then the most cells.
    boxes: dict[int, list[dict[str, Any]]] = {entry['id']: [] for entry in about['images']}
    for box in about['annotations']:
        boxes[box['image_id']].append(box)
    first = max(about['images'], key=lambda e: (len({b['category_id'] for b in boxes[e['id']]}), len(boxes[e['id']])))
    picture = Image.open(folder / dataset.data_prefix.img / first['file_name'])
    found = detector(picture).at_least(0.3)
    ids = [category['id'] for category in about['categories']]
    corners = np.array([box['bbox'] for box in boxes[first['id']]], np.float32)
    corners[:, 2:] += corners[:, :2]
    labels = np.array([ids.index(box['category_id']) for box in boxes[first['id']]])
    truth = Detections(corners, np.ones(len(labels), np.float32), labels, found.classes)
    for panel, objects, title in ((panels[0], truth, 'annotated'), (panels[1], found, 'found by the packed file')):
        panel.imshow(picture)
        panel.set(title=title, xticks=[], yticks=[])
        panel.grid(visible=False)
        for (x1, y1, x2, y2), label in zip(objects.boxes, objects.labels, strict=True):
            panel.add_patch(pyplot.Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, edgecolor=COLOURS[label]))
    lines = [pyplot.Line2D([], [], color=COLOURS[number], label=name) for number, name in enumerate(found.classes)]
    panels[1].legend(handles=lines, loc='upper center', bbox_to_anchor=(0.5, -0.02), ncols=3)


def learn_coco(work_dir: Path, options: list[str]) -> list[tuple[str, Path]]:
    """Eight images learned by heart: that anchors, targets, losses, gradients and evaluation work together."""
    seen = Config.fromfile(COCO).val_dataloader.dataset
    number = len(seen.indices)
    print(f'A 1-bit Faster R-CNN learns {number} images of demo/coco_sample from scratch; results go to {work_dir}.')
    print('Each line has the losses, the score on the training images, and the time left.')
    checkpoint = train(COCO, work_dir, options)
    own = [
        f'test_dataloader.dataset.ann_file={seen.ann_file}',
        f'test_dataloader.dataset.data_prefix.img={seen.data_prefix.img}',
        f'test_dataloader.dataset.indices={",".join(map(str, seen.indices))}',
    ]
    rows = {
        f'{number} training images': evaluate(COCO, checkpoint, work_dir / 'test_training_images', *own),
        'unseen images': evaluate(COCO, checkpoint, work_dir / 'test_unseen_images'),
    }
    painted = work_dir / 'detections.jpg'
    images = json.loads(Path(seen.data_root, seen.ann_file).read_text())['images']
    two_dogs = f'{seen.data_root}{seen.data_prefix.img}{images[seen.indices[3]]["file_name"]}'
    run('detect', two_dogs, checkpoint, '--out', painted)
    print()
    print_scores(
        {
            key.replace('coco/bbox', row): value
            for row, scores in rows.items()
            for key, value in scores.items()
            if key.startswith('coco/bbox')
        }
    )
    if not any(key.startswith('coco/bbox') for key in rows[f'{number} training images']):
        print('Nothing was detected on the training images: the training was too short.')
    print(f"""
The first row says that the binary detector learns: it finds again what it was shown. The second row is near zero, as
it must be after {number} images: the AP of the paper's table needs all of COCO 2017,
    rebnn train configs/coco/faster_rcnn_r18_rebnn_coco.py""")
    return [('boxes drawn', painted)]


LEARN = {'blood-cells': learn_blood_cells, 'coco': learn_coco}


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', choices=LEARN, default='blood-cells', help='default: %(default)s')
    parser.add_argument('--work-dir', type=Path, help='new folder; default: work_dirs/demo_<time>')
    parser.add_argument('--cfg-options', nargs='+', default=[], help='overrides for the training, as of rebnn train')
    args = parser.parse_args()
    start = time.monotonic()
    os.chdir(ROOT)
    work_dir = args.work_dir or Path(time.strftime('work_dirs/demo_%Y%m%d_%H%M%S'))
    if work_dir.exists():
        raise RebnnError(f'{work_dir} exists already.', fix='Name a new folder, or leave --work-dir out.')

    made = LEARN[args.data](work_dir, args.cfg_options)
    curves = work_dir / 'curves.png'
    run('curves', work_dir)
    checkpoint = work_dir / Path((work_dir / 'last_checkpoint').read_text().strip()).name
    log = min(work_dir.glob('*/*.log'))
    print()
    for name, path in (('checkpoint', checkpoint), ('log', log), ('curves', curves), *made):
        print(f'{name:<14} {path}')
    print(f'{"took":<14} {(time.monotonic() - start) / 60:.1f} minutes on {os.cpu_count()} cores')
    print('The next call starts afresh, in another folder.')


if __name__ == '__main__':
    main()
