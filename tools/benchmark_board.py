"""Times a packed model on a board: one command, a small table, and all that belongs to the numbers as JSON.

python benchmark_board.py resnet18.onnx --against resnet18_real.onnx --json board.json

Needs NumPy, ONNX Runtime and the package of the board wheel (rebnn_mm.deploy); this file may be copied alone. Linux.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from rebnn_mm.deploy import load
from rebnn_mm.deploy.errors import DeployError, first_sentence
from rebnn_mm.deploy.model import PackedModel
from rebnn_mm.deploy.native import library_file
from rebnn_mm.version import __version__

BLOCK = 5
"""Two models take turns after so many runs, so that a clock that changes changes both."""

DRIFT = 1.05
"""If the last third of the runs is slower than the first by more, the processor has probably been slowed down."""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', type=Path, help='packed model for images, written by tools/export.py')
    parser.add_argument('--against', type=Path, help='the real-valued network, an ONNX file with one image input')
    parser.add_argument('--size', type=_positive, nargs=2, default=(224, 224), metavar=('H', 'W'), help='of the photo')
    parser.add_argument('--core', type=int, help='processor to run on; default: the last of the fastest ones')
    parser.add_argument('--threads', type=_positive, default=1, help='more than one: not bound to a processor')
    parser.add_argument('--runs', type=_positive, default=50, help='timed runs of each model; default: %(default)s')
    parser.add_argument('--warm-up', type=float, default=3, metavar='SECONDS', help='default: %(default)s')
    parser.add_argument('--json', type=Path, help='file to write everything to')
    return parser.parse_args()


def main() -> int:
    args = parse_args()
    try:
        report = benchmark(args)
        if args.json:
            args.json.write_text(json.dumps(report, indent=2) + '\n', encoding='utf-8')
    except (DeployError, ValueError, OSError) as error:
        print(f'benchmark_board: {error}', file=sys.stderr)
        return 1
    print('\n'.join(table(report)))
    return 0


def benchmark(args: argparse.Namespace, root: Path = Path('/')) -> dict[str, Any]:
    """Run everything; the report as JSON can hold it.

    Args:
        args: from :func:`parse_args`.
        root: where ``proc`` and ``sys`` are.

    Raises:
        DeployError: the packed model cannot be used.
        ValueError: another argument does not fit; one sentence says which.
    """
    core = None if args.threads > 1 else pin(args.core, root)
    models = {str(args.model): packed_runner(args.model, args.threads, args.size)}
    if args.against:
        models[str(args.against)] = real_runner(args.against, args.threads, args.size)
    before = conditions(core, root)
    for run in models.values():
        end = time.perf_counter() + args.warm_up / len(models)
        run()
        while time.perf_counter() < end:
            run()
    times = measure(models, args.runs)
    after = conditions(core, root)
    return {
        'date': datetime.now(timezone.utc).isoformat(timespec='seconds'),
        'models': [{'model': name, **statistics_of(values)} for name, values in times.items()],
        'threads': args.threads,
        'core': core,
        'size': list(args.size),
        'warnings': warnings_of(before, after, times),
        'before': before,
        'after': after,
        'cpu': describe_cpu(core, root),
        'versions': versions(),
    }


def pin(wanted: int | None, root: Path) -> int:
    """Bind this process to one processor before any thread starts.

    Raises:
        ValueError: it may not run there.
    """
    allowed = sorted(os.sched_getaffinity(0))
    core = wanted if wanted is not None else max(allowed, key=lambda number: (highest_clock(number, root), number))
    if core not in allowed:
        raise ValueError(f'--core {core} is not available here; choose one of {", ".join(map(str, allowed))}.')
    os.sched_setaffinity(0, {core})
    return core


def packed_runner(path: Path, threads: int, size: tuple[int, int]) -> Callable[[], object]:
    """What runs a packed model once on a prepared photo of noise."""
    model = load(path, threads=threads)
    if not isinstance(model, PackedModel):
        raise ValueError(f'{path} is no model for images.')
    prepared = model.prepare(np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8))
    return lambda: model.run(prepared)


def real_runner(path: Path, threads: int, size: tuple[int, int]) -> Callable[[], object]:
    """What runs another ONNX file once, with ONNX Runtime's default optimisations, on float noise.

    Raises:
        ValueError: there is no such file, or its input is no batch of images.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
    except Exception as error:  # its classes have no common base below Exception
        raise ValueError(f'{path}: ONNX Runtime does not take it ({first_sentence(error)})') from None
    first, *others = session.get_inputs()
    if others or first.type != 'tensor(float)' or len(first.shape) != 4:
        raise ValueError(f'{path}: --against takes a file whose one input is an image of floats.')
    wanted = (1, 3, *size)
    shape = [have if isinstance(have, int) else want for have, want in zip(first.shape, wanted, strict=True)]
    feeds = {first.name: np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    return lambda: session.run(None, feeds)


def measure(models: dict[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Milliseconds of each run, the models taking turns.

    Example:
        >>> {name: len(values) for name, values in measure({'a': int, 'b': int}, 7).items()}
        {'a': 7, 'b': 7}
    """
    times: dict[str, list[float]] = {name: [] for name in models}
    for done in range(0, runs, BLOCK):
        for name, run in models.items():
            run()  # what the other model left in the caches is no part of it
            for _ in range(min(BLOCK, runs - done)):
                start = time.perf_counter()
                run()
                times[name].append(1000 * (time.perf_counter() - start))
    return times


def statistics_of(values: list[float]) -> dict[str, float]:
    """What is reported of a model's times.

    Example:
        >>> statistics_of([1.0, 2.0, 6.0])
        {'median_ms': 2.0, 'p90_ms': 5.2, 'least_ms': 1.0, 'runs': 3}
    """
    return {
        'median_ms': round(statistics.median(values), 3),
        'p90_ms': round(float(np.percentile(values, 90)), 3),
        'least_ms': round(min(values), 3),
        'runs': len(values),
    }


def conditions(core: int | None, root: Path) -> dict[str, Any]:
    """Clock, governor and temperatures now, as far as this system tells."""
    clock = root / f'sys/devices/system/cpu/cpu{core or 0}/cpufreq'
    return {
        'governor': read(clock / 'scaling_governor'),
        'clock_khz': number(clock / 'scaling_cur_freq'),
        'highest_clock_khz': number(clock / 'scaling_max_freq') or number(clock / 'cpuinfo_max_freq'),
        'temperatures_c': {
            read(zone / 'type') or zone.name: (number(zone / 'temp') or 0) / 1000
            for zone in sorted((root / 'sys/class/thermal').glob('thermal_zone*'))
        },
        'cooling': {
            read(device / 'type') or device.name: number(device / 'cur_state')
            for device in sorted((root / 'sys/class/thermal').glob('cooling_device*'))
        },
        'load': read(root / 'proc/loadavg'),
    }


def warnings_of(before: dict[str, Any], after: dict[str, Any], times: dict[str, list[float]]) -> list[str]:
    """What makes the numbers doubtful, one sentence each.

    Example:
        >>> quiet = dict(governor='performance', clock_khz=None, highest_clock_khz=None, cooling={}, load=None)
        >>> warnings_of(quiet, quiet | {'clock_khz': 1200000, 'highest_clock_khz': 2000000}, {'a': [1.0, 1.0, 1.0]})
        ['At the end the clock was 1.20 of 2.00 GHz.']
    """
    found = []
    if before['governor'] is None:
        found.append('This system does not tell its clock; nothing says that it was constant.')
    elif before['governor'] != 'performance':
        found.append(
            f'The governor is {before["governor"]}: the clock may vary. As root: '
            'echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor'
        )
    clock, highest = after['clock_khz'], after['highest_clock_khz']
    if clock and highest and clock < 0.97 * highest:
        found.append(f'At the end the clock was {clock / 1e6:.2f} of {highest / 1e6:.2f} GHz.')
    hotter = [name for name, state in after['cooling'].items() if (state or 0) > (before['cooling'].get(name) or 0)]
    if hotter:
        found.append(f'The system began to cool while it ran ({", ".join(hotter)}).')
    for name, values in times.items():
        third = max(1, len(values) // 3)
        ratio = statistics.median(values[-third:]) / statistics.median(values[:third])
        if ratio > DRIFT:
            found.append(
                f'{name}: its last runs took {ratio:.2f} times as long as its first; the processor may have been '
                'slowed down. Cool the board.'
            )
    if before['load'] and float(before['load'].split()[0]) > 0.5:
        found.append(f'Other programs were running (load {before["load"].split()[0]}).')
    return found


def describe_cpu(core: int | None, root: Path) -> dict[str, Any]:
    """The processor: its block of /proc/cpuinfo, its identification register, the board's name and the kernel."""
    blocks = [
        {
            key.strip(): value.strip()
            for key, _, value in (line.partition(':') for line in block.splitlines() if ':' in line)
        }
        for block in (read(root / 'proc/cpuinfo') or '').split('\n\n')
    ]
    block = next((block for block in blocks if block.get('processor') == str(core or 0)), blocks[0])
    registers = root / f'sys/devices/system/cpu/cpu{core or 0}/regs/identification'
    board = read(root / 'proc/device-tree/model') or read(root / 'sys/class/dmi/id/product_name')
    return {
        'board': board.rstrip('\0') if board else None,
        'machine': platform.machine(),
        'kernel': platform.release(),
        'cores': os.cpu_count(),
        'midr': read(registers / 'midr_el1'),
        'cpuinfo': block,
    }


def versions() -> dict[str, str | None]:
    """What ran."""
    return {
        'rebnn_mm': __version__,
        'kernels': kernels(),
        'onnxruntime': onnxruntime.__version__,
        'numpy': np.__version__,
        'python': platform.python_version(),
        'libc': ' '.join(platform.libc_ver()),
    }


def kernels() -> str | None:
    """The instruction set that the library has chosen; None without the library."""
    try:
        name = ctypes.CDLL(str(library_file('librebnn'))).rebnn_isa
    except (OSError, AttributeError):
        return None
    name.restype = ctypes.c_char_p
    chosen = name()
    return chosen.decode() if chosen else None


def table(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    cpu, now = report['cpu'], report['after']
    name = cpu['cpuinfo'].get('model name') or cpu['midr'] or cpu['cpuinfo'].get('CPU part') or 'unknown processor'
    where = f'processor {report["core"]}' if report['core'] is not None else f'{report["threads"]} threads'
    clock = f', {now["clock_khz"] / 1e6:.2f} GHz' if now['clock_khz'] else ''
    lines = [
        f'{cpu["board"] or cpu["machine"]}: {name}, {where}{clock}, governor {now["governor"] or "unknown"}',
        ', '.join(f'{what} {version}' for what, version in report['versions'].items()),
        f'{"model":40}{"median":>11}{"p90":>11}{"least":>11}',
    ]
    for row in report['models']:
        cells = ''.join(f'{row[key]:8.2f} ms' for key in ('median_ms', 'p90_ms', 'least_ms'))
        lines.append(f'{Path(row["model"]).name:40}{cells}')
    if len(report['models']) == 2:
        packed, real = (row['median_ms'] for row in report['models'])
        lines.append(f'{"ratio of the medians":40}{real / packed:8.2f}')
    return [*lines, *(f'Warning: {text}' for text in report['warnings'])]


def highest_clock(core: int, root: Path) -> int:
    """In kHz; 0 if the system does not tell."""
    return number(root / f'sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq') or 0


def read(path: Path) -> str | None:
    """The text of a file of the system without its last newline; None if it cannot be read."""
    try:
        return path.read_text(encoding='utf-8', errors='replace').strip('\n')
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The whole number in a file of the system."""
    text = read(path)
    return int(text) if text and text.lstrip('-').isdigit() else None


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError('must be at least 1')
    return value


if __name__ == '__main__':
    sys.exit(main())
