"""Prove the project on this machine's GPU: one command, a report as text and JSON.

    python -m lab.tools.check_gpu --json gpu.json
    python -m lab.tools.check_gpu --parts layers steps
    python -m lab.tools.check_gpu --device cpu --parts layers memory     # what of it a CPU can do, on small shapes

Each part is a process of its own with a time limit, so that one which fails, hangs or crashes leaves the others alone.
Exit code 0 if nothing failed, 1 if something did or there is no GPU. It needs the installed package and what is in the
repository; parts with detectors also need mmcv's compiled ops, and say so where those are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.command_line import check_writable

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 480
PARTS = {
    'layers': 'every layer and quantizer against the CPU: float32, channels_last, autocast; sums of signs',
    'memory': "memory='sums' and 'recompute' against 'plain', bit by bit",
    'steps': 'the rule around optimizer steps, with GradScaler; schedules and constraints of every method',
    'bits': "Triton's kernels for signs and masks of one bit against PyTorch's operators, and their time",
    'ops': "mmcv's NMS, RoIAlign and focal loss against torchvision's on the CPU",
    'sync': 'no step of ReBNN ResNet-18 waits for the device',
    'compile': 'torch.compile of blocks against the blocks',
    'processes': 'two processes (NCCL, two cards) against one',
    'encoder': 'memory and time of a step of a binary BERT compared with the full-precision one',
    'cost': 'memory and time of a step of ResNet-18, Faster R-CNN C4, SSD300, compiled ResNet-20, and fp32',
    'training': 'short trainings of the list lab/experiments/methods_gpu.py and of two detectors, each as a command',
}
COSTS = (
    ('ResNet-18', 'configs/imagenet/resnet18_rebnn_imagenet.py', 32, False, ()),
    ('Faster R-CNN C4', 'configs/coco/faster_rcnn_r18_rebnn_coco.py', 4, True, ()),
    ('SSD300', 'configs/coco/ssd300_vgg16_rebnn_coco.py', 8, True, ()),
    (
        'ResNet-20, compiled',
        'configs/cifar10/resnet20.py',
        128,
        False,
        ('--image-size', '32', '--compile'),
    ),
)
"""Name, config, batch size, whether it needs mmcv's ops, further arguments."""
STEP_GOALS = {'ResNet-18': 1.5, 'Faster R-CNN C4': 1.5, 'ResNet-20, compiled': 1.3}
"""What a step on a card may take, to that of the real network."""
DETECTORS = ('faster_rcnn_r18_rebnn_overfit', 'ssd300_vgg16_rebnn_overfit')
Finding = dict[str, Any]


def make_finding(check: str, state: str, detail: str = '', **numbers: float) -> Finding:
    return dict(check=check, state=state, detail=detail, numbers=numbers)


def call(command: list[str], limit_s: float) -> tuple[int, str]:
    """Exit code and output of a command; its last line says so if it ran past its time."""
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        return 124, f'did not end within {limit_s:.0f} s'
    return done.returncode, done.stdout


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), 'no output')[:300]


def check_cost(device: str) -> Iterator[Finding]:
    """Measure the full-precision counterpart and ReBNN's memory modes, by lab/tools/benchmark_training.py."""
    from lab.device.cost import compare_cost, compare_with_goal
    from lab.device.detector_ops import missing_ops

    on_gpu = device.startswith('cuda')
    for name, config, batch, detector, options in COSTS:
        reason = missing_ops(device) if detector else None
        if detector and not on_gpu:
            reason = 'takes minutes on a CPU; lab/tools/benchmark_training.py measures it'
        elif options and not on_gpu:
            reason = 'compiles for minutes on a CPU'
        if reason:
            yield make_finding(name, 'skipped', reason)
            continue
        sizes = ['--batch-size', str(batch)] if on_gpu else ['--batch-size', '2', '--image-size', '32', '--no-memory']
        rounds = ['--rounds', '10' if on_gpu else '2', '--warmup', '3' if on_gpu else '1', '--batches', '2']
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, 'cost.json')
            tool = [sys.executable, '-m', 'lab.tools.benchmark_training', config, '--variants']
            tool += ['real', 'rebnn', 'sums', 'recompute'][: 2 if options else 4]
            tool += ['--device', device, *sizes, *options, *rounds, '--json', str(path)]
            code, output = call(tool, LIMIT_S / 2)
            if code or not path.is_file():
                yield make_finding(name, 'failed', f'exit code {code}: {last_line(output)}')
                continue
            rows = json.loads(path.read_text())['variants']
        keys = {'median_ms': 'ms', 'kept_mib': 'kept MiB', 'peak_mib': 'peak MiB'}
        costs = {v: {word: row[key] for key, word in keys.items() if key in row} for v, row in rows.items()}
        for variant, numbers in costs.items():
            yield compare_cost(f'{name}, {variant}', numbers, costs['real'])._asdict()
        if on_gpu and name in STEP_GOALS:
            ratio = costs['rebnn']['ms'] / costs['real']['ms']
            yield compare_with_goal(f'{name}, goal of a step', ratio, STEP_GOALS[name])._asdict()


def write_images(folder: Path, count: int) -> None:
    """Random images in the layout of CIFAR-10's archive."""
    import numpy as np

    batches = folder / 'cifar-10-batches-py'
    batches.mkdir(parents=True)
    random = np.random.default_rng(0)
    for name in (*(f'data_batch_{number}' for number in range(1, 6)), 'test_batch'):
        images = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        batch = dict(data=images, labels=[number % 10 for number in range(count)])
        (batches / name).write_bytes(pickle.dumps(batch, protocol=2))


def check_training(device: str) -> Iterator[Finding]:
    """Two epochs of two iterations of each training, by tools/train.py; losses are finite."""
    from mmengine.config import Config

    from lab.device.detector_ops import missing_ops
    from lab.study.plan import read_experiment

    on_gpu = device.startswith('cuda')
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder / 'images', 64)
        batch = 128 if on_gpu else 8
        commands: list[tuple[str, Path, Path]] = []
        runs = read_experiment(ROOT / 'lab/experiments/methods_gpu.py').runs(seeds=[0])
        for run in runs if on_gpu else runs[10:11]:
            cfg = run.build_config(ROOT)
            cfg.train_cfg.max_epochs = 2
            # One image is left out of each epoch, so that the second has an image of the first and a new one.
            for loader in (cfg.train_dataloader, cfg.val_dataloader):
                loader.dataset.update(data_root=str(folder / 'images'), indices=2 * batch + 1)
            cfg.train_dataloader.batch_size = batch
            cfg.default_hooks.logger.interval = 1
            # Compiling takes a minute; one network shows it.
            compiled = on_gpu and run.name == 'resnet20_rebnn'
            cfg.custom_hooks = [hook for hook in cfg.custom_hooks if compiled or 'Compile' not in hook['type']]
            if not on_gpu:
                cfg.optim_wrapper.type = 'OptimWrapper'
                cfg.optim_wrapper.pop('dtype')
            cfg.dump(folder / f'{run.name}.py')
            commands.append((run.label, folder / f'{run.name}.py', folder / run.name))
        reason = missing_ops(device)
        for config in DETECTORS:
            if reason or not on_gpu:
                yield make_finding(config, 'skipped', reason or 'takes minutes on a CPU')
                continue
            cfg = Config.fromfile(ROOT / f'configs/overfit/{config}.py')
            cfg.merge_from_dict({'train_cfg.max_iters': 2, 'default_hooks.logger.interval': 1})
            cfg.dump(folder / f'{config}.py')
            commands.append((config, folder / f'{config}.py', folder / config))
        # Most of each is starting up, on one core.
        with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 1) // 2))) as several:
            yield from several.map(train, *zip(*commands, strict=True))


def train(name: str, config: Path, work_dir: Path) -> Finding:
    """Train by the command; finite losses are what is asked for."""
    import math

    start = time.monotonic()
    code, output = call([sys.executable, 'tools/train.py', str(config), '--work-dir', str(work_dir)], LIMIT_S / 2)
    if code:
        return make_finding(name, 'failed', f'exit code {code}: {last_line(output)}')
    lines = [json.loads(line) for path in work_dir.glob('*/vis_data/scalars.json') for line in path.open()]
    losses = [line['loss'] for line in lines if 'loss' in line]
    passed = bool(losses) and all(map(math.isfinite, losses))
    seconds = time.monotonic() - start
    return make_finding(
        name, 'passed' if passed else 'failed', f'losses {losses}, {seconds:.0f} s', seconds=round(seconds, 1)
    )


COMMANDS: dict[str, Callable[[str], Iterator[Finding]]] = {'cost': check_cost, 'training': check_training}
"""Parts that are commands of the project."""


def print_part(name: str, device: str) -> None:
    """Print the findings of one part as lines of JSON."""
    if name in COMMANDS:
        findings = COMMANDS[name](device)
    else:
        from lab.device import run_part

        findings = (finding._asdict() for finding in run_part(name, device))
    for finding in findings:
        print(json.dumps(finding), flush=True)


def watch_part(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run a part as a process, show what it finds, end it when its time is over."""
    print(f'\n{name}: {PARTS[name]}', flush=True)
    start = time.monotonic()
    command = [sys.executable, __file__, '--only-part', name, '--device', args.device]
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))}
    with tempfile.TemporaryFile('w+') as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, start_new_session=True
        )
        over = threading.Event()

        def end() -> None:
            over.set()
            os.killpg(process.pid, signal.SIGKILL)

        clock = threading.Timer(args.limit, end)
        clock.start()
        findings = []
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{'):
                findings.append(json.loads(line))
                show(findings[-1])
        code = process.wait()
        clock.cancel()
        errors.seek(0)
        reason = f'did not end within {args.limit:g} s' if over.is_set() else f'ended with {code}: '
        if code:
            reason += '' if over.is_set() else last_line(errors.read())
            findings.append(make_finding(name, 'failed', reason))
            show(findings[-1])
    return dict(state=state_of(findings), seconds=round(time.monotonic() - start, 1), findings=findings)


def show(finding: Finding) -> None:
    print(
        f'  {finding["state"]:8}  {finding["check"]}' + (f': {finding["detail"]}' if finding['detail'] else ''),
        flush=True,
    )


def state_of(findings: list[Finding]) -> str:
    """``'failed'`` if anything is, ``'skipped'`` if nothing else happened."""
    states = {finding['state'] for finding in findings}
    if 'failed' in states or not states:
        return 'failed'
    return 'skipped' if states == {'skipped'} else 'passed'


def machine(device: str) -> dict[str, Any]:
    """Describe machine and versions."""
    import datetime
    import platform
    from importlib import metadata

    import torch

    report: dict[str, Any] = dict(device='CPU', python=platform.python_version(), torch=torch.__version__)
    if device.startswith('cuda'):
        report.update(
            device=torch.cuda.get_device_name(device), cards=torch.cuda.device_count(), cuda=torch.version.cuda
        )
    for name in ('triton', 'onedl-mmengine', 'onedl-mmcv', 'onedl-mmdetection', 'onedl-mmpretrain', 'transformers'):
        try:
            report[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            report[name] = None
    return dict(report, date=datetime.date.today().isoformat())


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        '--parts',
        nargs='+',
        choices=list(PARTS),
        default=list(PARTS),
        metavar='PART',
        help='default: all. ' + '; '.join(f'{name}: {words}' for name, words in PARTS.items()),
    )
    parser.add_argument('--device', default='cuda', help='default: %(default)s; cpu for what of it a CPU can do')
    parser.add_argument('--limit', type=float, default=LIMIT_S, help='seconds for each part; default: %(default)s')
    parser.add_argument('--json', type=Path, help='write the report to this file, too')
    parser.add_argument('--only-part', choices=list(PARTS), help='print the findings of this part as lines of JSON')
    return parser.parse_args()


def check_device(device: str) -> None:
    import torch

    if device.startswith('cuda') and not torch.cuda.is_available():
        goals = ', '.join(f'{name} {goal}' for name, goal in STEP_GOALS.items())
        raise RebnnError(
            f'PyTorch {torch.__version__} sees no GPU, so there is nothing to prove, and the goals of a step '
            f'({goals} times the real one) are not measured. What of it a CPU can do: --device cpu.'
        )


@report_errors
def main() -> None:
    args = parse_args()
    check_device(args.device)
    if args.only_part is not None:
        sys.path.insert(0, str(ROOT))
        print_part(args.only_part, args.device)
        return
    if args.json is not None:
        check_writable(args.json)
    report: dict[str, Any] = dict(machine=machine(args.device), parts={})
    print(', '.join(f'{key} {value}' for key, value in report['machine'].items()))
    for name in args.parts:
        report['parts'][name] = watch_part(name, args)
        if args.json is not None:
            args.json.write_text(json.dumps(report, indent=1) + '\n')
    print()
    for name, part in report['parts'].items():
        failed = sum(finding['state'] == 'failed' for finding in part['findings'])
        checks = len(part['findings'])
        print(f'{part["state"]:8}  {name}: {checks} checks, {failed} failed, {part["seconds"]:.0f} s')
    sys.exit(any(part['state'] == 'failed' for part in report['parts'].values()))


if __name__ == '__main__':
    main()
