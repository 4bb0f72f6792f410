"""Train a 1-bit detector on a few real images, score it and show what it finds: `make demo`.

    python demo/run_demo.py

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

from mmengine.config import Config

from rebnn_mm.utils.score_table import print_scores

ROOT = Path(__file__).resolve().parents[1]
CONFIG = 'configs/demo/faster_rcnn_r18_rebnn_coco_sample.py'


def run(*command: object) -> None:
    """Print and run one command; end the demo if it fails."""
    words = [str(word) for word in command]
    print(f'\n$ python {shlex.join(words)}\n', flush=True)
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment(), check=False)
    if done.returncode != 0:
        sys.exit(f'demo/run_demo.py: the command above ended with exit code {done.returncode}; its message says why.')


def environment() -> dict[str, str]:
    """The environment of each command: without the GPU where mmcv's operators were built without CUDA."""
    from mmcv.ops import get_compiling_cuda_version

    if get_compiling_cuda_version() == 'not available':
        return {**os.environ, 'CUDA_VISIBLE_DEVICES': ''}
    return dict(os.environ)


def evaluate(checkpoint: Path, work_dir: Path, row: str, *options: object) -> dict[str, float]:
    """Run tools/test.py and return the average precisions it wrote, renamed to ``row``."""
    run('tools/test.py', CONFIG, checkpoint, '--work-dir', work_dir, *(['--cfg-options', *options] if options else []))
    (file,) = work_dir.glob('*/*.json')
    scores = json.loads(file.read_text())
    return {key.replace('coco/bbox', row): value for key, value in scores.items() if key.startswith('coco/bbox')}


def image_of(dataset: Config, index: int) -> str:
    """Path of an image of a data set."""
    images = json.loads(Path(dataset.data_root, dataset.ann_file).read_text())['images']
    return f'{dataset.data_root}{dataset.data_prefix.img}{images[index]["file_name"]}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work-dir', type=Path, help='new folder; default: work_dirs/demo_<time>')
    parser.add_argument(
        '--cfg-options', nargs='+', default=[], help='overrides for the training, as in tools/train.py'
    )
    args = parser.parse_args()
    start = time.monotonic()
    os.chdir(ROOT)
    work_dir = args.work_dir or Path(time.strftime('work_dirs/demo_%Y%m%d_%H%M%S'))
    if work_dir.exists():
        sys.exit(f'demo/run_demo.py: {work_dir} exists already. Name a new folder, or leave --work-dir out.')

    cfg = Config.fromfile(CONFIG)
    seen = cfg.val_dataloader.dataset
    number = len(seen.indices)
    print(f'A 1-bit Faster R-CNN learns {number} images of demo/coco_sample from scratch; results go to {work_dir}.')
    print('The log shows loss, flipped signs and gamma, the score on the training images, and the time left (eta).')
    options = ['--cfg-options', *args.cfg_options] if args.cfg_options else []
    run('tools/train.py', CONFIG, '--work-dir', work_dir, *options)
    checkpoint = work_dir / Path((work_dir / 'last_checkpoint').read_text().strip()).name

    seen_row, unseen_row = f'{number} training images', 'unseen images'
    scores = evaluate(
        checkpoint,
        work_dir / 'test_training_images',
        seen_row,
        f'test_dataloader.dataset.ann_file={seen.ann_file}',
        f'test_dataloader.dataset.data_prefix.img={seen.data_prefix.img}',
        f'test_dataloader.dataset.indices={",".join(map(str, seen.indices))}',
    )
    scores |= evaluate(checkpoint, work_dir / 'test_unseen_images', unseen_row)
    painted = work_dir / 'detections.jpg'
    two_dogs = image_of(seen, seen.indices[3])
    run('demo/image_demo.py', two_dogs, checkpoint, '--out', painted)
    run('tools/analysis/plot_curves.py', work_dir)

    print()
    print_scores(scores)
    if f'{seen_row}_mAP' not in scores:
        print('Nothing was detected on the training images: the training was too short.')
    print(f"""
The first row says that the binary detector learns: it finds again what it was shown. The second row is near zero, as
it must be after {number} images: the AP of the paper's table needs all of COCO 2017,
    python tools/train.py configs/faster_rcnn_r18_rebnn_coco.py

checkpoint     {checkpoint}
log            {min(work_dir.glob('*/*.log'))}
curves         {work_dir / 'curves.png'}
boxes drawn    {painted}
took           {(time.monotonic() - start) / 60:.1f} minutes on {os.cpu_count()} cores
The next call starts afresh, in another folder.""")


if __name__ == '__main__':
    main()
