"""Time the sixteen binary convolutions of ResNet-18 alone, against what the core could do, by the runtime's benchmark.

python -m lab.tools.convolutions
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rebnn_mm.deploy.run import positive
from rebnn_mm.errors import RebnnError, report_errors

SOURCES = Path(__file__).resolve().parents[2] / 'runtime'

KINDS = ('convolution', 'block', 'from reals')


def build(sources: Path, folder: Path) -> Path:
    """Build ``bench_conv``, or what of it has changed since the last time."""
    if not (sources / 'CMakeLists.txt').is_file():
        raise RebnnError(f"no runtime sources at {sources}: they come with a clone of the project's repository.")
    beside = Path(sys.executable).with_name('cmake')
    cmake = str(beside) if beside.exists() else shutil.which('cmake')
    if cmake is None or shutil.which('c++') is None:
        raise RebnnError('there is no cmake or no C++ compiler: apt-get install cmake g++')
    for command in (
        [cmake, '-S', str(sources), '-B', str(folder), '-DREBNN_BUILD_TESTS=ON', '-DCMAKE_BUILD_TYPE=Release'],
        [cmake, '--build', str(folder), '--target', 'bench_conv'],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines() or ['it says nothing']
            raise RebnnError(f'bench_conv cannot be built ({last[-1]}). Remove {folder} if it is of another clone.')
    return folder / 'tests' / 'bench_conv'


def measure(program: Path, repetitions: int) -> dict[str, dict[str, Any]]:
    """Run ``bench_conv`` and read its tables."""
    done = subprocess.run([program, str(repetitions)], capture_output=True, text=True)
    if done.returncode:
        raise RebnnError(f'{program} failed: {(done.stderr or done.stdout).strip()[-300:]}')
    return read_tables(done.stdout)


def read_tables(text: str) -> dict[str, dict[str, Any]]:
    r"""Run ``bench_conv`` and return its output by instruction set.

    Each holds ``ms`` of all sixteen (one thread, by :data:`KINDS`), ``layers``, the same for each shape, and where the
    core's limit is measured ``limit`` in products per second, ``ratio``, the part of it that each kind reaches with
    all products of every output counted, and ``ratio_no_border``, with those inside of the image.
    """
    found: dict[str, dict[str, Any]] = {}
    for part in re.split(r'^(?=\w)', text, flags=re.MULTILINE):
        if not part.strip():
            continue
        table: dict[str, Any] = {'layers': {}}
        for line in part.splitlines()[1:]:
            label, numbers = line[:22].strip(), re.findall(r'([\d.]+) (ms|%)', line)
            values = [float(number) for number, _ in numbers]
            if label.startswith('all 16'):
                table['ms'] = dict(zip(KINDS, values, strict=True))
            elif '->' in label:
                table['layers'][' '.join(label.split())] = dict(zip(KINDS, values, strict=True))
            elif label.startswith('reached'):
                key = 'ratio_no_border' if 'border' in label else 'ratio'
                table[key] = {kind: round(value / 100, 4) for kind, value in zip(KINDS, values, strict=True)}
            elif label.startswith('popcount limit'):
                table['limit'] = 1e9 * float(re.findall(r'([\d.]+) G/s', line)[0])
        found[part.split(maxsplit=1)[0]] = table
    return found


def convolution_table(found: dict[str, dict[str, Any]]) -> Table:
    """Milliseconds of all sixteen, and the part of the limit that they reach."""
    table = Table()
    for heading in ('kernels', '', 'ms', 'of the limit', 'of the limit, products inside of the image'):
        table.add_column(heading, justify='left' if heading in ('kernels', '') else 'right')
    for isa, entry in found.items():
        limit = f'{isa} (limit {entry["limit"] / 1e9:,.0f} G products/s)' if 'limit' in entry else isa
        for kind, ms in entry['ms'].items():
            parts = [f'{100 * entry[key][kind]:.0f} %' if key in entry else '' for key in ('ratio', 'ratio_no_border')]
            table.add_row(limit, kind, f'{ms:.3f}', *parts)
            limit = ''
        table.add_section()
    return table


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Build the program, run it, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--repetitions', type=positive, default=200, help='default: %(default)s')
    parser.add_argument('--work-dir', type=Path, default=Path('work_dirs/benchmark'), help='default: %(default)s')
    parser.add_argument('--json', action='store_true', help='print JSON in place of a table')
    args = parser.parse_args(arguments)
    found = measure(build(SOURCES, args.work_dir / 'runtime'), args.repetitions)
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        Console(width=120, highlight=False).print(convolution_table(found))


if __name__ == '__main__':
    main()
