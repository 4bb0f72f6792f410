"""Time and memory of one training iteration: a 1-bit network against the same network without what makes it one.

    python -m lab.tools.benchmark_training configs/coco/faster_rcnn_r18_rebnn_coco.py --batch-size 2
    python -m lab.tools.benchmark_training configs/imagenet/resnet18_rebnn_imagenet.py --batch-size 32
    python -m lab.tools.benchmark_training --table --json cost.json
    python -m lab.tools.benchmark_training --table hardtanh bert

The variants of the config's network are trained in turns, one iteration each, so that whatever else the machine does
meets all of them; a ratio is the median over the rounds of the quotient within a round. Times of one thread are those
of the processor. What a variant keeps for the backward pass is counted, each storage once and without parameters; its
peak memory is that of a process of its own. Detectors train on the sample in demo/coco_sample, classifiers on random
images or words, without a teacher.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config, DictAction
from mmengine.device import get_device
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from rich.console import Console
from rich.table import Table

from lab.machine import processor, versions
from lab.tools.training_variants import OURS, VARIANTS, Step, make_step, measure_kept_mib, swap_layers
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.quantizers import MissingHookWarning
from rebnn_mm.utils.config_file import read_config

SAMPLE = Path(__file__).resolve().parents[2] / 'demo' / 'coco_sample'
MINILM = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
"""Sizes of the encoder of a text classifier whose own is not there."""
DISTRIBUTIONS = ('torch', 'onedl-mmengine', 'onedl-mmcv', 'onedl-mmdetection', 'onedl-mmpretrain', 'numpy')


class Row(NamedTuple):
    """A line of the table: what it is measured with, and whether its peak memory is, too: a process a variant."""

    words: str
    config: str
    batch_size: int
    cfg_options: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    peak: bool = False


RESNET = 'configs/imagenet/resnet18_rebnn_imagenet.py'
BFLOAT16 = ('optim_wrapper.type=AmpOptimWrapper', 'optim_wrapper.dtype=bfloat16')
NO_DROPOUT = tuple(f'model.encoder_options.{which}_dropout_prob=0.0' for which in ('hidden', 'attention_probs'))
COMPILED = ('--image-size', '32', '--compile')
MINILM_RTE = (('ENCODER', 'minilm'), ('TASK', 'rte'))
ROWS = {
    'hardtanh': Row('ResNet-18', RESNET, 32, peak=True),
    'hardtanh_bf16': Row('the same under bfloat16 autocast', RESNET, 8, BFLOAT16),
    'react': Row("ResNet-18 in ReActNet's block", RESNET, 8, ('model.backbone.block=react',)),
    'react_bf16': Row('the same under bfloat16 autocast', RESNET, 8, ('model.backbone.block=react', *BFLOAT16)),
    'two_images': Row('ResNet-18', RESNET, 2),
    'recu': Row('ResNet-18 with ReCU', 'configs/imagenet/resnet18_recu_imagenet.py', 8),
    'rbnn': Row('ResNet-18 with RBNN', 'configs/imagenet/resnet18_rbnn_imagenet.py', 8),
    'fda': Row('ResNet-18 with FDA-BNN', 'configs/imagenet/resnet18_fda_imagenet.py', 8),
    'c4': Row('Faster R-CNN C4', 'configs/coco/faster_rcnn_r18_rebnn_coco.py', 1, peak=True),
    'ssd300': Row('SSD300', 'configs/coco/ssd300_vgg16_rebnn_coco.py', 2, peak=True),
    'bert': Row("BERT, MiniLM's size, Bi-Attention", 'configs/glue/rebnn.py', 16, environment=MINILM_RTE, peak=True),
    'bert_without_dropout': Row(
        'the same without dropout', 'configs/glue/rebnn.py', 16, NO_DROPOUT, environment=MINILM_RTE
    ),
    'compiled': Row('ResNet-20, compiled', 'configs/cifar10/resnet20.py', 128, options=COMPILED),
}
"""What :func:`print_table` shows."""


def detection_batches(cfg: Config, args: argparse.Namespace) -> list[Any]:
    """Batches of the sample's training images, through the config's own pipeline."""
    loader = cfg.train_dataloader
    loader.update(batch_size=args.batch_size, num_workers=0, persistent_workers=False)
    loader.dataset.update(
        data_root=f'{SAMPLE}/', ann_file='annotations/instances_train2017.json', data_prefix=dict(img='train2017/')
    )
    for transform in loader.dataset.pipeline:
        if transform.type == 'Resize' and args.image_size is not None:
            transform.scale = (args.image_size, args.image_size)
    batches = iter(Runner.build_dataloader(loader, seed=0))
    return [next(batches) for _ in range(args.batches)]


def classification_batches(args: argparse.Namespace) -> list[Any]:
    """Batches of random images and labels."""
    from mmpretrain.structures import DataSample

    size = args.image_size or 224
    images = torch.randint(0, 256, (args.batches, args.batch_size, 3, size, size), dtype=torch.uint8)
    samples = [DataSample().set_gt_label(label % 2) for label in range(args.batch_size)]
    return [dict(inputs=batch, data_samples=samples) for batch in images]


def text_batches(cfg: Config, args: argparse.Namespace) -> list[Any]:
    """Batches of random words in texts of the greatest length, and labels."""
    from mmengine.structures import BaseDataElement
    from transformers import AutoConfig

    words = AutoConfig.from_pretrained(cfg.model.encoder).vocab_size
    shape = (args.batch_size, cfg.pipeline[0]['max_length'])
    samples = [BaseDataElement(gt_label=label % 2) for label in range(args.batch_size)]
    texts = [dict(input_ids=torch.randint(words, shape)) for _ in range(args.batches)]
    return [dict(inputs=text | dict(attention_mask=torch.ones(shape).long()), data_samples=samples) for text in texts]


def run_once(step: Step, batch: Any, device: str) -> float:
    """Seconds one iteration takes: of the processor where one thread of it does all of the work."""
    clock = time.process_time if device == 'cpu' and torch.get_num_threads() == 1 else time.perf_counter
    if device.startswith('cuda'):
        torch.cuda.synchronize()
    start = clock()
    step(batch)
    if device.startswith('cuda'):
        torch.cuda.synchronize()
    return clock() - start


def measure_times(cfg: Config, batches: list[Any], args: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds per iteration of each variant, one entry per round."""
    steps = {name: make_step(cfg, VARIANTS[name], args.device, args.compile) for name in args.variants}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for index in range(args.warmup + args.rounds):
        for name, step in steps.items():
            seconds = run_once(step, batches[index % len(batches)], args.device)
            if index >= args.warmup:
                times[name].append(seconds)
        print(f'\rround {index + 1} of {args.warmup + args.rounds}', end='', file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return times


def resident_mib() -> float:
    """Largest memory this process has held so far, or since its peak was reset."""
    status = Path('/proc/self/status')
    if status.is_file():  # ru_maxrss starts at the memory of the process that called this one
        line = next(line for line in status.read_text().splitlines() if line.startswith('VmHWM'))
        return int(line.split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == 'darwin' else peak / 2**10


def measure_memory_alone(cfg: Config, batches: list[Any], args: argparse.Namespace) -> dict[str, float]:
    """Peak memory of this process after a few iterations of one variant, and what it held before them."""
    on_gpu = args.device.startswith('cuda')
    if (clear := Path('/proc/self/clear_refs')).exists():
        clear.write_text('5')  # forget the peak of the imports, which is higher than that of a small training
    before = 0.0 if on_gpu else resident_mib()
    step = make_step(cfg, VARIANTS[args.memory_of], args.device, args.compile)
    for batch in batches[:2] * 2:
        run_once(step, batch, args.device)
    peak = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else resident_mib()
    return {'peak_mib': round(peak, 1), 'before_mib': round(before, 1)}


def measure_memory(name: str) -> dict[str, float]:
    """Peak memory of a variant, from a process of its own with the same arguments."""
    command = [sys.executable, *sys.argv, '--memory-of', name]
    # Or glibc soon keeps freed tensors for itself, and the peak is also that of the holes between them.
    env = {'MALLOC_MMAP_THRESHOLD_': '131072', **os.environ}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def summarise(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median, 10th and 90th percentile in ms per variant, and its median ratio to the first one's time."""
    first = next(iter(times.values()))
    summary = {}
    for name, values in times.items():
        deciles = statistics.quantiles(values, n=10)
        summary[name] = {
            'median_ms': round(1000 * statistics.median(values), 2),
            'p10_ms': round(1000 * deciles[0], 2),
            'p90_ms': round(1000 * deciles[-1], 2),
            'first_over_this': round(statistics.median(a / b for a, b in zip(first, values, strict=True)), 4),
        }
    return summary


def describe_machine(device: str) -> dict[str, Any]:
    """Hardware, versions, date: what a number needs to be quoted with."""
    cpu = f'CPU, {torch.get_num_threads()} threads'
    return {
        'device': torch.cuda.get_device_name() if device.startswith('cuda') else cpu,
        'cpu': f'{processor()}, {os.cpu_count()} cores',
        **versions(DISTRIBUTIONS),
        'date': datetime.date.today().isoformat(),
    }


def measure_row(row: Row, args: argparse.Namespace) -> dict[str, Any] | None:
    """The report of a line of the table, from a process of its own; None if that failed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'cost.json')
        command = [sys.executable, __file__, row.config, '--json', str(path), *row.options]
        command += (
            f'--variants real rebnn sums recompute --batch-size {row.batch_size} --batches 2 --threads 1'.split()
        )
        command += f'--rounds {args.rounds} --warmup {args.warmup} --device {args.device}'.split()
        command += ['--no-time'] if args.no_time else []
        command += [] if row.peak and not args.no_memory else ['--no-memory']
        command += ['--cfg-options', *row.cfg_options] if row.cfg_options else []
        env = os.environ | dict(row.environment)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, env=env)
        return None if done.returncode else json.loads(path.read_text())


def ratios(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Ratios to the full-precision network: what is kept, peak memory above that of imports and data, and time."""
    variants = report['variants']
    real, found = variants['real'], {}
    for name in [name for name in ('rebnn', 'sums', 'recompute') if name in variants]:
        own = variants[name]
        found[name] = {'kept': own['kept_mib'] / real['kept_mib']}
        if 'peak_mib' in own:
            before = report['before_mib']
            found[name]['peak'] = (own['peak_mib'] - before) / (real['peak_mib'] - before)
        if report['seconds']:
            pairs = zip(report['seconds'][name], report['seconds']['real'], strict=True)
            found[name]['time'] = statistics.median(ours / theirs for ours, theirs in pairs)
    return found


def print_table(reports: dict[str, dict[str, Any]]) -> None:
    console = Console(width=118)
    table = Table(
        '', 'kept MiB', "'sums'", "'recompute'", 'peak MiB', "'sums'", "'recompute'", 'ms', "'sums'", "'recompute'"
    )
    for name, report in reports.items():
        real, to_real = report['variants']['real'], report['to_real']
        cells = [f'{ROWS[name].words}, {report["batch_size"]} of {report["image_size"]}']
        for key, ratio in (('kept_mib', 'kept'), ('peak_mib', 'peak'), ('median_ms', 'time')):
            value = real.get(key)
            if value is not None and key == 'peak_mib':
                value -= report['before_mib']
            cells.append('-' if value is None else f'{value:.0f}')
            cells += [f'{row[ratio]:.2f}' if ratio in row else '-' for row in to_real.values()]
        table.add_row(*cells)
    console.print(table)
    console.print(
        'kept, peak, ms: of the full-precision counterpart, and what 1-bit layers take of that; kept is what the '
        'backward pass needs of the forward pass, next to parameters and buffers; peak is above imports and data'
    )
    console.print(', '.join(f'{key} {value}' for key, value in next(iter(reports.values()))['machine'].items()))


def measure_table(args: argparse.Namespace) -> None:
    """Measure the chosen lines, print them and write them down."""
    names = args.table or list(ROWS)
    reports: dict[str, dict[str, Any]] = {}
    start = time.monotonic()
    for index, name in enumerate(names):
        minutes = (time.monotonic() - start) / 60
        left = f', about {minutes / index * (len(names) - index):.0f} min left' if index else ''
        print(f'{index + 1} of {len(names)}, {name}; {minutes:.0f} min so far{left}', file=sys.stderr)
        report = measure_row(ROWS[name], args)
        if report is not None:
            reports[name] = report | {'to_real': ratios(report)}
            if args.json is not None:
                write_json(args.json, reports)
    if reports:
        print_table(reports)
    failed = [name for name in names if name not in reports]
    if failed:
        raise RebnnError(f'Not measured, see above: {", ".join(failed)}.')


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + '\n')


def print_report(report: dict[str, Any]) -> None:
    console = Console(width=118)
    names = list(report['variants'])
    words = VARIANTS[names[0]].words
    table = Table(
        'variant', 'median ms', 'p10', 'p90', f'{words} takes', 'kept MiB', 'peak MiB', title=report['config']
    )
    for name, row in report['variants'].items():
        ratio = f'{row["first_over_this"]:.3f} x as long' if name != names[0] and 'first_over_this' in row else ''
        peak = f'{row["peak_mib"]:.0f}' if 'peak_mib' in row else '-'
        times = (f'{row[key]:.1f}' if key in row else '-' for key in ('median_ms', 'p10_ms', 'p90_ms'))
        table.add_row(VARIANTS[name].words, *times, ratio, f'{row["kept_mib"]:.1f}', peak)
    console.print(table)
    console.print('kept MiB: what the backward pass needs of the forward pass, without parameters and buffers')
    if report['before_mib']:
        console.print(f'peak MiB: of the whole process, of which imports and data are {report["before_mib"]:.0f}')
    console.print(f'batch size {report["batch_size"]}, image size {report["image_size"]}, {report["rounds"]} rounds')
    console.print(', '.join(f'{key} {value}' for key, value in report['machine'].items()))


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', nargs='?', help='config of a detector or classifier with 1-bit layers')
    parser.add_argument(
        '--table',
        nargs='*',
        choices=list(ROWS),
        help='in place of a config: lines of the table of lab/reports/training_cost.md',
    )
    parser.add_argument('--variants', nargs='+', choices=list(VARIANTS), default=list(VARIANTS), help='default: all')
    parser.add_argument('--rounds', type=int, default=20, help='measured iterations of each variant')
    parser.add_argument('--warmup', type=int, default=3, help='iterations before them')
    parser.add_argument('--batches', type=int, default=4, help='different batches to go through')
    parser.add_argument('--batch-size', type=int, default=2)
    parser.add_argument('--image-size', type=int, help="longest side; default: the config's, 224 for a classifier")
    parser.add_argument('--threads', type=int, help="of PyTorch; default: PyTorch's own")
    parser.add_argument('--compile', action='store_true', help='compile the backbone, as CompileHook does')
    parser.add_argument('--device', default=get_device(), help='default: the first GPU if there is one')
    parser.add_argument('--no-memory', action='store_true', help='no peak memory, which takes a process per variant')
    parser.add_argument('--no-time', action='store_true', help='no times, which take most of the time')
    parser.add_argument('--memory-of', choices=list(VARIANTS), help='only print the peak memory of this variant')
    parser.add_argument('--json', type=Path, help='write everything, each single time included, to this file')
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, help='override entries of the config')
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    if (args.config is None) == (args.table is None):
        raise RebnnError('Give a config, or --table.')
    if args.rounds < 2:
        raise RebnnError('--rounds must be at least 2.')
    if args.table is not None:
        measure_table(args)
        return
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    cfg = read_config(args.config, args.cfg_options)
    if swap_layers(cfg.model.to_dict(), None) == swap_layers(cfg.model.to_dict(), OURS):
        raise RebnnError(f'{args.config} has no 1-bit layers, so there is nothing to compare.')
    scope = cfg.get('default_scope', 'mmengine')
    init_default_scope(scope)
    # one variant leaves the hook out on purpose
    warnings.simplefilter('ignore', MissingHookWarning)
    with tempfile.TemporaryDirectory() as folder:
        if 'encoder' in cfg.model and not Path(cfg.model.encoder).is_dir():
            from transformers import BertConfig

            BertConfig(**MINILM).save_pretrained(folder)
            cfg.model.encoder = folder
        measure_config(cfg, scope, args)


def measure_config(cfg: Config, scope: str, args: argparse.Namespace) -> None:
    """Measure the variants of a network, print them and write them down."""
    if 'encoder' in cfg.model:
        batches = text_batches(cfg, args)
    else:
        batches = classification_batches(args) if scope == 'mmpretrain' else detection_batches(cfg, args)
    if args.memory_of is not None:
        print(json.dumps(measure_memory_alone(cfg, batches, args)))
        return

    times = {} if args.no_time else measure_times(cfg, batches, args)
    variants: dict[str, dict[str, Any]] = summarise(times) if times else {name: {} for name in args.variants}
    for name, row in variants.items():
        row['kept_mib'] = measure_kept_mib(cfg, VARIANTS[name], batches[0], args.device, args.compile)
    before = 0.0
    if not args.no_memory:
        for name, row in variants.items():
            memory = measure_memory(name)
            before = memory.pop('before_mib')
            row.update(memory)
    inputs = batches[0]['inputs']
    words = isinstance(inputs, dict)
    size = f'{inputs["input_ids"].shape[1]} words' if words else '{1}x{0}'.format(*inputs[0].shape[1:])
    report = {
        'config': args.config,
        'batch_size': args.batch_size,
        'image_size': size,
        'rounds': args.rounds,
        'machine': describe_machine(args.device),
        'before_mib': before,
        'variants': variants,
    }
    print_report(report)
    if args.json is not None:
        write_json(args.json, {**report, 'seconds': times})
        print(f'written to {args.json}')


if __name__ == '__main__':
    main()
