"""Times a packed model on a board: one command, a small table, and all that belongs to the numbers as JSON.

python benchmark_board.py resnet18.onnx --against resnet18_real.onnx --json board.json

Needs NumPy, ONNX Runtime and the package of the board wheel (rebnn_mm.deploy); this file may be copied alone. Linux.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from rebnn_mm.deploy import load
from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.measurement import (
    conditions,
    describe_cpu,
    measure,
    pin,
    statistics_of,
    versions,
    warm_up,
    warnings_of,
)
from rebnn_mm.deploy.model import ImageModel
from rebnn_mm.deploy.run import positive
from rebnn_mm.errors import RebnnError, report_errors


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model', type=Path, help='packed model for images, written by tools/export.py')
    parser.add_argument('--against', type=Path, help='the full-precision network, an ONNX file with one image input')
    parser.add_argument(
        '--size',
        type=positive,
        nargs=2,
        default=(224, 224),
        metavar=('H', 'W'),
        help='of the photo; the other file gets what it becomes',
    )
    parser.add_argument('--core', type=int, help='processor to run on; default: the last of the fastest ones')
    parser.add_argument('--threads', type=positive, default=1, help='more than one: not bound to a processor')
    parser.add_argument('--runs', type=positive, default=50, help='timed runs of each model; default: %(default)s')
    parser.add_argument('--warm-up', type=float, default=3, metavar='SECONDS', help='default: %(default)s')
    parser.add_argument('--json', type=Path, help='file to write everything to')
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    report = benchmark(args)
    print('\n'.join(table(report)))
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + '\n', encoding='utf-8')


def benchmark(args: argparse.Namespace, root: Path = Path('/')) -> dict[str, Any]:
    """Run everything; the report as JSON can hold it.

    Args:
        args: from :func:`parse_args`.
        root: where ``proc`` and ``sys`` are.

    Raises:
        RebnnError: the packed model or another argument does not fit; one sentence says which.
    """
    core = None if args.threads > 1 else pin(args.core, root)
    run, prepared = make_packed_runner(args.model, args.threads, args.size)
    models = {str(args.model): run}
    if args.against:
        models[str(args.against)] = real_runner(args.against, args.threads, prepared)
    before = conditions(core, root)
    warm_up(models, args.warm_up)
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


def make_packed_runner(
    path: Path, threads: int, size: tuple[int, int]
) -> tuple[Callable[[], object], tuple[int, int]]:
    """Make a function that runs a packed model once on a prepared image of noise, and say the size of that image."""
    model = load(path, threads=threads)
    if not isinstance(model, ImageModel):
        raise RebnnError(f'{path} is not a model for images.')
    assert model.metadata.preprocess is not None
    prepared = model.metadata.preprocess(np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8))
    height, width = prepared.image.shape[2:]
    return lambda: model.run(prepared), (height, width)


def real_runner(path: Path, threads: int, size: tuple[int, int]) -> Callable[[], object]:
    """Make a function that runs another ONNX file once, with ONNX Runtime's default optimisations, on float noise.

    Raises:
        RebnnError: there is no such file, or its input is not a batch of images.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
    except Exception as error:  # its classes have no common base below Exception
        raise RebnnError(f'{path}: ONNX Runtime does not take it ({first_sentence(error)}).') from error
    first, *others = session.get_inputs()
    if others or first.type != 'tensor(float)' or len(first.shape) != 4:
        raise RebnnError(f'{path}: --against takes a file whose one input is an image of floats.')
    wanted = (1, 3, *size)
    shape = [have if isinstance(have, int) else want for have, want in zip(first.shape, wanted, strict=True)]
    feeds = {first.name: np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    return lambda: session.run(None, feeds)


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


if __name__ == '__main__':
    main()
