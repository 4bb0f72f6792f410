"""Compare the time of packed networks with fp32 and int8: a table, or JSON.

rebnn benchmark --models resnet18 resnet34
rebnn benchmark --packed cells.onnx --real cells_real.onnx --size 600 800

Each network is run in ONNX Runtime, batch 1, in five alternating ways: full-precision in fp32, quantized to int8
by ONNX Runtime (static, QDQ, per channel), as the exact packed file, as a file of `rebnn export --fast`, and as one of
`rebnn export --fast --int8 IMAGES --int8-layers all`. The first two have all of ONNX Runtime's optimisations. Networks
named by --models get random weights; their files are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from rebnn_mm.benchmark.networks import NETWORKS
from rebnn_mm.benchmark.tables import RATIOS, WORDS, show
from rebnn_mm.benchmark.timing import by_operator, is_ours, node_times, noise_feeds, open_timed, ratio_of
from rebnn_mm.deploy.errors import ModelFileError
from rebnn_mm.deploy.measurement import (
    BLOCK,
    conditions,
    describe_cpu,
    measure,
    pin,
    statistics_of,
    versions,
    warm_up,
    warnings_of,
)
from rebnn_mm.deploy.onnx_file import read_onnx
from rebnn_mm.deploy.run import positive
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.native_library import ABI, instruction_sets
from rebnn_mm.utils.console import plain_console

ROOT = Path(__file__).resolve().parents[2]


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('--models', nargs='+', choices=NETWORKS, default=[], metavar='NAME', help=', '.join(NETWORKS))
    parser.add_argument('--packed', type=Path, help='a packed file of your own, instead of --models')
    parser.add_argument('--real', type=Path, help='its full-precision counterpart, an ONNX file')
    parser.add_argument('--size', type=positive, nargs=2, default=(224, 224), metavar=('H', 'W'), help='for --packed')
    parser.add_argument('--rounds', type=positive, default=50, help='timed runs of each; default: %(default)s')
    parser.add_argument('--warm-up', type=float, default=2, metavar='SECONDS', help='default: %(default)s')
    parser.add_argument('--threads', type=positive, default=1, help='more than one: not bound to a processor')
    parser.add_argument(
        '--isa',
        nargs='+',
        choices=instruction_sets(),
        metavar='ISA',
        default=[],
        help='kernels of the packed files, such as portable; default: the first that this processor has',
    )
    parser.add_argument('--no-int8', action='store_true', help='leave out the int8 files, which take time and memory')
    parser.add_argument('--where', action='store_true', help='say where the time goes, by operator and by node')
    parser.add_argument('--work-dir', type=Path, default=Path('work_dirs/benchmark'), help='default: %(default)s')
    parser.add_argument('--json', action='store_true', help='print {model: {ratio, ...}} instead of tables')
    parser.add_argument('--measure', action='store_true', help=argparse.SUPPRESS)  # a job from the standard input
    args = parser.parse_args()
    if not (args.measure or args.models or args.packed):
        parser.error('give --models, or --packed with --real')
    if bool(args.packed) != bool(args.real):
        parser.error('--packed and --real go together')
    return args


@report_errors
def main() -> None:
    args = parse_args()
    warnings.simplefilter('ignore')
    if args.measure:
        print(json.dumps(measure_files(json.load(sys.stdin))))
        return
    report = benchmark(args)
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        show(report, plain_console(width=120))


def benchmark(args: argparse.Namespace) -> dict[str, Any]:
    """All that is asked for, as JSON holds it."""
    from rebnn_mm.benchmark.files import ModelFiles  # imports PyTorch

    console = plain_console(stderr=True)
    files = ModelFiles(args.work_dir, lambda step: console.print(f'... {step}', soft_wrap=True))
    jobs: dict[str, tuple[dict[str, Path], tuple[int, int]]] = {}
    for name in args.models:
        jobs[name] = files.of_network(name, NETWORKS[name], int8=not args.no_int8), NETWORKS[name].size
    if args.packed:
        for option, path, packed in (('--packed', args.packed, True), ('--real', args.real, False)):
            try:
                is_packed = read_onnx(path.read_bytes()).has_operators
            except ModelFileError as error:
                raise RebnnError(str(error), f'{option} {path}') from error
            if is_packed != packed:
                has = 'no' if packed else 'packed'
                raise RebnnError(f'{option} {path} has {has} binary layers: exchange the two, or name another.')
        own = {'fp32': args.real, 'packed': args.packed}
        if not args.no_int8:
            own['int8'] = files.int8(args.real.stem, args.real, tuple(args.size))
        jobs[args.packed.stem] = own, tuple(args.size)
    report: dict[str, Any] = {}
    for name, (paths, size) in jobs.items():
        for isa in args.isa or [None]:
            files.progress(f'timing {name}' + (f' with {isa}' if isa else ''))
            found = measure_in_own_process(args, name, paths, size, isa)
            if name in report:
                report[name]['other_kernels'][isa] = found
            else:
                report[name] = {**found, 'other_kernels': {}}
    return report


def measure_in_own_process(
    args: argparse.Namespace, name: str, paths: dict[str, Path], size: tuple[int, int], isa: str | None
) -> dict[str, Any]:
    """:func:`measure_files` in a new process, since one keeps its kernels, its memory and its processor."""
    job = {
        'files': {kind: str(paths[kind]) for kind in WORDS if kind in paths},
        'size': list(size),
        **{key: getattr(args, key) for key in ('rounds', 'warm_up', 'threads', 'where')},
    }
    environment = {**os.environ, 'PYTHONPATH': f'{ROOT}{os.pathsep}{os.environ.get("PYTHONPATH", "")}'}
    if isa:
        environment['REBNN_ISA'] = isa
    command = [sys.executable, '-m', 'rebnn_command', 'benchmark', '--measure']
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, env=environment)
    if done.returncode:
        last = done.stderr.strip().splitlines() or ['it says nothing']
        raise RebnnError(f'{name} cannot be timed: {last[-1].partition(": ")[2] or last[-1]}')
    return json.loads(done.stdout)


def measure_files(job: dict[str, Any]) -> dict[str, Any]:
    """Times of some files that take turns, their ratios, and all that belongs to the numbers."""
    root = Path('/')
    core = None if job['threads'] > 1 else pin(None, root)
    found_versions = versions()
    if found_versions['kernels'] is None:
        raise RebnnError(f'the kernels {os.environ.get("REBNN_ISA", "")} are not there on this processor.')
    size = tuple(job['size'])
    runs: dict[str, Callable[[], object]] = {}
    for kind, path in job['files'].items():
        session = open_timed(Path(path), kind in RATIOS, job['threads'])
        feeds = noise_feeds(session, size)
        runs[kind] = partial(session.run, None, feeds)
    before = conditions(core, root)
    warm_up(runs, job['warm_up'])
    times = measure(runs, job['rounds'])
    after = conditions(core, root)
    ratios: dict[str, Any] = {}
    for kind, name in RATIOS.items():
        for other in ('fp32', 'int8'):
            if kind in times and other in times:
                key = name + ('_int8' if other == 'int8' else '')
                value, *interval = ratio_of(times[other], times[kind], BLOCK)
                ratios[key], ratios[f'{key}_interval'] = round(value, 3), interval
    return {
        **ratios,
        'rows': {
            kind: {**statistics_of(values), 'megabytes': round(Path(job['files'][kind]).stat().st_size / 1e6, 3)}
            for kind, values in times.items()
        },
        **({'where': where(job, size)} if job['where'] else {}),
        'warnings': warnings_of(before, after, times),
        'date': datetime.now(timezone.utc).isoformat(timespec='seconds'),
        'settings': job,
        'machine': describe_cpu(core, root),
        'versions': {**found_versions, 'abi': ABI},
    }


def where(job: dict[str, Any], size: tuple[int, int]) -> dict[str, Any]:
    """For each file milliseconds by operator, the share of ours, and the nodes, the longest first."""
    found = {}
    for kind, path in job['files'].items():
        with tempfile.TemporaryDirectory() as folder:
            session = open_timed(Path(path), kind in RATIOS, job['threads'], trace=f'{folder}/trace')
            nodes = node_times(session, noise_feeds(session, size), max(job['rounds'] // 2, 2))
        total = sum(node.ms for node in nodes)
        found[kind] = {
            'total_ms': round(total, 4),
            'ours': round(sum(node.ms for node in nodes if is_ours(node.kind)) / total, 4),
            'operators': {kind: round(ms, 4) for kind, ms in by_operator(nodes).items()},
            'nodes': [[node.name, node.kind, round(node.ms, 4)] for node in sorted(nodes, key=lambda n: -n.ms)],
        }
    return found
