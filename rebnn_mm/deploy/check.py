"""Test this machine with a packed model that comes along: its processor, kernels, result and time.

rebnn check
"""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..errors import CommandParser, report_errors
from .detector import Detections, Detector
from .image import read_image
from .loading import load
from .measurement import conditions, describe_cpu, measure, versions, warnings_of
from .native import LibraryError, library_path
from .zoo import cards, zoo_path

RUNS = 20

CLOSE = 0.5
"""Pixels by which a box may differ with and without the kernels, which sum in another order."""

SYSTEM = Path('/')


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Print what this machine is and does; exit code 1 if something is wrong."""
    parser = CommandParser(prog='rebnn check', description=__doc__.partition('\n')[0])
    parser.parse_args(arguments)
    problems: list[str] = []
    for line in check_machine(problems):
        print(line, flush=True)
    print('\n'.join(f'error: {problem}' for problem in problems) or 'no problems found')
    if problems:
        raise SystemExit(1)


def check_machine(problems: list[str]) -> Iterator[str]:
    """The lines to print, each as soon as it is known."""
    cpu, found = describe_cpu(None, SYSTEM), versions()
    name = cpu['cpuinfo'].get('model name') or cpu['board'] or 'unknown'
    usable = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else cpu['cores']  # Linux alone has it
    cores = f'{usable} of {cpu["cores"]} cores'
    yield f'processor  {name} ({cpu["machine"]}), {cores} for this process'
    yield f'kernels    {found["kernels"] or "none"}'
    yield f'versions   {", ".join(f"{key} {value}" for key, value in found.items() if key != "kernels")}'
    with_kernels = True
    try:
        library_path()
    except LibraryError as error:
        problems.append(str(error))
        with_kernels = False
    if with_kernels and found['kernels'] is None:
        problems.append(
            f'librebnn does not load, or has no kernels {os.environ.get("REBNN_ISA", "")} for this processor: install '
            'the wheel of this processor, and unset REBNN_ISA.'
        )
    card = cards()[0]
    model, photo = f'zoo:{card["name"]}', read_image(zoo_path(f'zoo:{card["sample"]}'))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # that there are no kernels is said above
        detector = load(model, use_library=with_kernels)
        plain = load(model, use_library=False)
    assert isinstance(detector, Detector) and isinstance(plain, Detector)
    objects, expected = detector(photo), plain(photo)
    yield f'model      {model} finds {len(objects.at_least(0.3))} objects in zoo:{card["sample"]}'
    if not agree(objects, expected):
        problems.append(f'{model} finds other objects with the kernels than without them: please report it.')
    before = conditions(None, SYSTEM)
    times = measure({model: lambda: detector(photo)}, RUNS)[model]
    how = 'with our kernels' if with_kernels else 'without our kernels'
    spread = f'{min(times):.1f} to {max(times):.1f}'
    yield f'time       {statistics.median(times):.1f} ms, median of {RUNS} runs ({spread}), 1 thread, {how}'
    for sentence in warnings_of(before, conditions(None, SYSTEM), {model: times}):
        yield f'note: {sentence}'


def agree(one: Detections, other: Detections) -> bool:
    """Whether two results have the same clear objects, scores above a half, in about the same places."""
    one, other = one.at_least(0.5), other.at_least(0.5)
    return (
        len(one) == len(other)
        and sorted(one.names) == sorted(other.names)
        and bool(np.all(np.abs(np.sort(one.boxes, axis=0) - np.sort(other.boxes, axis=0)) <= CLOSE))
    )
