"""Times of models that take turns, and all that belongs to the numbers: processor, clock, temperatures, versions."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from rebnn_mm.native_library import load_kernels
from rebnn_mm.version import __version__

from ..errors import RebnnError

BLOCK = 5
"""Two models take turns after so many runs, so that a clock that changes changes both."""

DRIFT = 1.05
"""If the last third of the runs is slower than the first by more, the processor has probably been slowed down."""


def pin(wanted: int | None, root: Path) -> int:
    """Bind this process to one processor before any thread starts."""
    allowed = sorted(os.sched_getaffinity(0))
    clocks = {core: number(root / f'sys/devices/system/cpu/cpu{core}/cpufreq/cpuinfo_max_freq') for core in allowed}
    core = wanted if wanted is not None else max(allowed, key=lambda core: (clocks[core] or 0, core))
    if core not in allowed:
        raise RebnnError(f'--core {core} is not available here; choose one of {", ".join(map(str, allowed))}.')
    os.sched_setaffinity(0, {core})
    return core


def warm_up(models: dict[str, Callable[[], object]], seconds: float) -> None:
    """Run each model at least once, and so long that all together take this time."""
    for run in models.values():
        end = time.perf_counter() + seconds / len(models)
        run()
        while time.perf_counter() < end:
            run()


def measure(models: dict[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """Milliseconds of each run, the models taking turns."""
    times: dict[str, list[float]] = {name: [] for name in models}
    for done in range(0, runs, BLOCK):
        for name, run in models.items():
            run()  # what the other model left in the caches is not part of it
            for _ in range(min(BLOCK, runs - done)):
                start = time.perf_counter()
                run()
                times[name].append(1000 * (time.perf_counter() - start))
    return times


def statistics_of(values: list[float]) -> dict[str, float]:
    """Statistics of a model's times."""
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
    """List what makes the numbers doubtful, one sentence each."""
    found = []
    if before['governor'] is None:
        found.append('The CPU clock cannot be read here, so it may have changed during timing.')
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
    """Return the versions and kernels that ran."""
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
    library = load_kernels()
    return None if library is None else str(library.rebnn_isa().decode())


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
