"""Time and memory of one training iteration: ReBNN against the same network without what it adds.

    python tools/analysis/benchmark_training.py configs/faster_rcnn_r18_rebnn_coco.py --batch-size 2
    python tools/analysis/benchmark_training.py configs/resnet18_rebnn_imagenet.py --batch-size 32

The variants of the config's network are trained in turns, one iteration each, so that whatever else the machine does
meets all of them; a ratio is the median over the rounds of the quotient within a round. What a variant keeps for the
backward pass is counted, each storage once and without parameters; its peak memory is that of a process of its own.
Detectors train on the sample in demo/coco_sample, classifiers on random images.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config, ConfigDict, DictAction
from mmengine.device import get_device
from mmengine.model import BaseModel
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, init_default_scope
from mmengine.runner import Runner, set_random_seed
from rich.console import Console
from rich.table import Table

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.quantizers import MissingHookWarning
from rebnn_mm.utils.command_line import stop_if
from rebnn_mm.utils.config_file import missing_config

Step = Callable[[Any], Any]
SAMPLE = Path(__file__).resolve().parents[2] / 'demo' / 'coco_sample'
OURS = 'ReBNNConv2d'
DISTRIBUTIONS = ('torch', 'onedl-mmengine', 'onedl-mmcv', 'onedl-mmdetection', 'onedl-mmpretrain', 'numpy')


class Variant(NamedTuple):
    """One way to train the network: the layer in place of ReBNNConv2d (None: nn.Conv2d), with or without the rule."""

    layer: str | None
    gamma_rule: bool
    words: str
    memory: str | None = None


VARIANTS = {
    'rebnn': Variant(OURS, True, 'ReBNN'),
    'recompute': Variant(OURS, True, "ReBNN, memory='recompute'", 'recompute'),
    'kept': Variant(OURS, True, "ReBNN, memory='plain'", 'plain'),
    'no_gamma': Variant(OURS, False, 'the same layers without the gamma rule'),
    'plain': Variant('BinaryConv2d', False, 'plain straight-through layers'),
    'real': Variant(None, False, 'real-valued layers, ReLU'),
}


def swap_layers(cfg: Any, layer: str | None, memory: str | None = None) -> Any:
    """The model config with ``layer`` at every ``conv_cfg`` of a ReBNNConv2d, and without pretrained weights."""
    if isinstance(cfg, (list, tuple)):
        return type(cfg)(swap_layers(item, layer, memory) for item in cfg)
    if not isinstance(cfg, dict):
        return cfg
    swapped = {key: swap_layers(value, layer, memory) for key, value in cfg.items()}
    if isinstance(swapped.get('init_cfg'), dict) and swapped['init_cfg'].get('type') == 'Pretrained':
        swapped['init_cfg'] = None
    conv = swapped.get('conv_cfg')
    if isinstance(conv, dict) and conv.get('type') == OURS and layer != OURS:
        swapped['conv_cfg'] = None if layer is None else dict(type=layer)
        if layer is None and 'block' in swapped:
            swapped['block'] = 'relu'
    elif isinstance(conv, dict) and conv.get('type') == OURS and memory is not None:
        swapped['conv_cfg'] = dict(conv, memory=memory)
    return swapped


def build_model(cfg: Config, variant: Variant, device: str) -> BaseModel:
    """A variant's network with the weights of seed 0."""
    set_random_seed(0)
    model = MODELS.build(ConfigDict(swap_layers(cfg.model.to_dict(), variant.layer, variant.memory)))
    model.init_weights()
    return model.to(device).train()


def make_step(cfg: Config, variant: Variant, device: str) -> Step:
    """Build a variant with its optimizer; the result does one training iteration on a batch."""
    model = build_model(cfg, variant, device)
    optim_wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    if variant.gamma_rule:
        ResilientGradient(model).attach(optim_wrapper.optimizer)
    return lambda batch: model.train_step(batch, optim_wrapper)


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


def run_once(step: Step, batch: Any, device: str) -> float:
    """Seconds one iteration takes."""
    if device.startswith('cuda'):
        torch.cuda.synchronize()
    start = time.perf_counter()
    step(batch)
    if device.startswith('cuda'):
        torch.cuda.synchronize()
    return time.perf_counter() - start


def kept_mib(cfg: Config, variant: Variant, batch: Any, device: str) -> float:
    """What a forward pass keeps for the backward pass, each storage once, without parameters and buffers."""
    model = build_model(cfg, variant, device)
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    amp = cfg.optim_wrapper.get('type') == 'AmpOptimWrapper'
    dtype = getattr(torch, cfg.optim_wrapper.get('dtype', 'float16')) if amp else None
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast(torch.device(device).type, dtype, enabled=amp),
    ):
        losses = model._run_forward(model.data_preprocessor(batch, True), mode='loss')
    assert losses
    return round(sum(storage.nbytes() for storage in kept.values()) / 2**20, 1)


def measure_times(cfg: Config, batches: list[Any], args: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds per iteration of each variant, one entry per round."""
    steps = {name: make_step(cfg, VARIANTS[name], args.device) for name in args.variants}
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
    step = make_step(cfg, VARIANTS[args.memory_of], args.device)
    for batch in batches[:2] * 2:
        run_once(step, batch, args.device)
    peak = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else resident_mib()
    return {'peak_mib': round(peak, 1), 'before_mib': round(before, 1)}


def measure_memory(name: str) -> dict[str, float]:
    """Peak memory of a variant, from a process of its own with the same arguments."""
    command = [sys.executable, *sys.argv, '--memory-of', name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
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
    cpu = platform.processor() or platform.machine()
    if Path('/proc/cpuinfo').is_file():
        lines = Path('/proc/cpuinfo').read_text().splitlines()
        cpu = next((line.split(':')[1].strip() for line in lines if line.startswith('model name')), cpu)
    versions = {name: importlib.metadata.version(name) for name in DISTRIBUTIONS if _installed(name)}
    return {
        'device': torch.cuda.get_device_name()
        if device.startswith('cuda')
        else f'CPU, {torch.get_num_threads()} threads',
        'cpu': f'{cpu}, {os.cpu_count()} cores',
        'python': platform.python_version(),
        **versions,
        'date': datetime.date.today().isoformat(),
    }


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


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
    console.print('kept MiB: what the backward pass needs of the forward pass, beside parameters and buffers')
    if report['before_mib']:
        console.print(f'peak MiB: of the whole process, of which imports and data are {report["before_mib"]:.0f}')
    console.print(f'batch size {report["batch_size"]}, image size {report["image_size"]}, {report["rounds"]} rounds')
    console.print(', '.join(f'{key} {value}' for key, value in report['machine'].items()))


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='config of a detector or classifier with ReBNNConv2d layers')
    parser.add_argument('--variants', nargs='+', choices=list(VARIANTS), default=list(VARIANTS), help='default: all')
    parser.add_argument('--rounds', type=int, default=20, help='measured iterations of each variant')
    parser.add_argument('--warmup', type=int, default=3, help='iterations before them')
    parser.add_argument('--batches', type=int, default=4, help='different batches to go through')
    parser.add_argument('--batch-size', type=int, default=2)
    parser.add_argument('--image-size', type=int, help="longest side; default: the config's, 224 for a classifier")
    parser.add_argument('--device', default=get_device(), help='default: the first GPU if there is one')
    parser.add_argument('--no-memory', action='store_true', help='no peak memory, which takes a process per variant')
    parser.add_argument('--no-time', action='store_true', help='no times, which take most of the time')
    parser.add_argument('--memory-of', choices=list(VARIANTS), help='only print the peak memory of this variant')
    parser.add_argument('--json', type=Path, help='write everything, each single time included, to this file')
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, help='override entries of the config')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    stop_if(missing_config(args.config))
    stop_if('--rounds must be at least 2.' if args.rounds < 2 else None)
    cfg = Config.fromfile(args.config)
    cfg.merge_from_dict(args.cfg_options or {})
    if swap_layers(cfg.model.to_dict(), None) == swap_layers(cfg.model.to_dict(), OURS):
        stop_if(f"{args.config} has no conv_cfg=dict(type='{OURS}'), so there is nothing to compare.")
    scope = cfg.get('default_scope', 'mmengine')
    init_default_scope(scope)
    # one variant leaves the hook out on purpose
    warnings.simplefilter('ignore', MissingHookWarning)
    batches = classification_batches(args) if scope == 'mmpretrain' else detection_batches(cfg, args)
    if args.memory_of is not None:
        print(json.dumps(measure_memory_alone(cfg, batches, args)))
        return

    times = {} if args.no_time else measure_times(cfg, batches, args)
    variants: dict[str, dict[str, Any]] = summarise(times) if times else {name: {} for name in args.variants}
    for name, row in variants.items():
        row['kept_mib'] = kept_mib(cfg, VARIANTS[name], batches[0], args.device)
    before = 0.0
    if not args.no_memory:
        for name, row in variants.items():
            memory = measure_memory(name)
            before = memory.pop('before_mib')
            row.update(memory)
    shape = tuple(batches[0]['inputs'][0].shape[1:])
    report = {
        'config': args.config,
        'batch_size': args.batch_size,
        'image_size': f'{shape[1]}x{shape[0]}',
        'rounds': args.rounds,
        'machine': describe_machine(args.device),
        'before_mib': before,
        'variants': variants,
    }
    print_report(report)
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({**report, 'seconds': times}, indent=1) + '\n')
        print(f'written to {args.json}')


if __name__ == '__main__':
    main()
