"""A benchmark's report for people."""

from __future__ import annotations

from itertools import islice, zip_longest
from typing import Any

from rich.console import Console
from rich.table import Table

WORDS = {
    'fp32': 'full-precision, fp32',
    'int8': 'full-precision, int8',
    'packed': 'packed, exact',
    'fast': 'packed, --fast',
    'mixed': 'packed, --fast, int8',
}

RATIOS = {'packed': 'ratio', 'fast': 'ratio_fast', 'mixed': 'ratio_mixed'}
"""Packed files, and what the quotient of their times is called in a report."""

FEATURES = (
    'ssse3', 'avx2', 'avx512f', 'avx512bw', 'avx512_vpopcntdq', 'avx512_vnni', 'avx512_bf16', 'asimd', 'asimddp',
    'fphp',
)  # fmt: skip
"""Flags of a processor by which kernels are chosen."""

MOST_NODES = 12
"""So many nodes of a network are listed."""


def show(report: dict[str, Any], console: Console) -> None:
    """Print a report: what ran where, the times, and where they go, as far as they are in it."""
    for name, entry in report.items():
        if name == next(iter(report)):
            for line in _conditions(entry):
                console.print(line, soft_wrap=True)
        height, width = entry['settings']['size']
        console.print(f'\n{name}, an image of {width} x {height}')
        console.print(_times(entry))
        for found in (entry, *entry['other_kernels'].values()):
            for warning in found['warnings']:
                console.print(f'Warning: {warning}', soft_wrap=True)
        for kind, spent in entry.get('where', {}).items():
            total, ours = spent['total_ms'], 100 * spent['ours']
            console.print(f'\n{name}, {WORDS[kind]}: {total:.2f} ms with tracing, {ours:.0f} % in our operators')
            console.print(_where(spent))


def _conditions(entry: dict[str, Any]) -> list[str]:
    machine, settings = entry['machine'], entry['settings']
    cpu = machine['cpuinfo']
    flags = cpu.get('flags') or cpu.get('Features') or ''
    name = cpu.get('model name') or machine['midr'] or 'unknown processor'
    return [
        f'{machine["board"] or machine["machine"]}: {name}, {machine["cores"]} cores, '
        f'{" ".join(flag for flag in FEATURES if flag in flags.split())}',
        ', '.join(f'{what} {version}' for what, version in entry['versions'].items()),
        f'{entry["date"]}, batch 1, {settings["threads"]} thread(s), {settings["rounds"]} rounds in turns after '
        f'{settings["warm_up"]} s of warming up',
    ]


def _times(entry: dict[str, Any]) -> Table:
    table = Table()
    table.add_column('network', no_wrap=True)
    for heading in ('kernels', 'MB', 'median, ms', 'p90, ms', 'faster than fp32', 'faster than int8'):
        table.add_column(heading, justify='right')
    kernels = entry['versions']['kernels']
    for chosen, found in {kernels: entry, **entry['other_kernels']}.items():
        for kind, row in found['rows'].items():
            key = RATIOS.get(kind)
            table.add_row(
                WORDS[kind],
                chosen if key else '',
                f'{row["megabytes"]:.2f}',
                f'{row["median_ms"]:.2f}',
                f'{row["p90_ms"]:.2f}',
                *(_ratio(found, f'{key}{other}') if key else '' for other in ('', '_int8')),
            )
        table.add_section()
    return table


def _ratio(found: dict[str, Any], key: str) -> str:
    if key not in found:
        return ''
    low, high = found[f'{key}_interval']
    return f'{found[key]:.2f} ({low:.2f} to {high:.2f})'


def _where(spent: dict[str, Any]) -> Table:
    table = Table()
    for heading, justify in (('operator', 'left'), ('ms', 'right'), ('%', 'right'), ('node', 'left'), ('ms', 'right')):
        table.add_column(heading, justify=justify, overflow='fold')  # type: ignore[arg-type]
    operators = [(k, f'{ms:.3f}', f'{100 * ms / spent["total_ms"]:.0f}') for k, ms in spent['operators'].items()]
    nodes = [(f'{name} ({kind})', f'{ms:.3f}') for name, kind, ms in spent['nodes']]
    for left, right in islice(zip_longest(operators, nodes), MOST_NODES):
        table.add_row(*(left or ('', '', '')), *(right or ()))
    return table
