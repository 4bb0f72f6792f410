"""Compares trained files of one task by score, time and size, and finds those that no other beats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import onnx

from rebnn_mm.deploy.onnx_file import DIGEST_KEY, read_onnx, seal
from rebnn_mm.export.examples import Image, feeds_of

from ..errors import RebnnError
from .int8 import quantize

Cost = Literal['ms', 'megabytes']


class Point(NamedTuple):
    """A trained file."""

    label: str  # what a reader calls it
    score: float  # in percent, higher is better
    ms: float  # median of one image
    megabytes: float  # of the file, 10^6 bytes each


def front(points: Sequence[Point], cost: Cost) -> list[Point]:
    """The points that no other beats at less cost, or with more at the same; cheapest first. NaN beats nothing."""
    found: list[Point] = []
    numbers = [point for point in points if not math.isnan(point.score)]
    for point in sorted(numbers, key=lambda p: (getattr(p, cost), -p.score)):
        equal = found and (point.score, getattr(point, cost)) == (found[-1].score, getattr(found[-1], cost))
        if not found or equal or point.score > found[-1].score:
            found.append(point)
    return found


def markdown(points: Sequence[Point], metric: str) -> list[str]:
    """A table, a line for each point; what is on a front is bold."""
    best = {cost: front(points, cost) for cost in ('ms', 'megabytes')}

    def cell(point: Point, cost: str) -> str:
        value = getattr(point, cost)
        text = f'{value:.3g}' if value < 1000 else f'{value:.0f}'
        return f'**{text}**' if point in best[cost] else text

    rows = [
        f'| {p.label.replace("|", "/")} | {p.score:.1f} | {cell(p, "ms")} | {cell(p, "megabytes")} |' for p in points
    ]
    return [f'| file | {metric} | ms | MB |', '|---|---|---|---|', *rows]


def draw(points: Sequence[Point], metric: str, path: Path) -> None:
    """Two panels, score over time and over size, with the fronts as lines; what costs more counts by its ratio."""
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    from rebnn_mm.analysis.figure_style import COLOURS, DPI, figure_style
    from rebnn_mm.utils.picture import plain, save_picture

    with figure_style():
        figure, panels = pyplot.subplots(1, 2, figsize=(8, 3.4), sharey=True)
        names: dict[Cost, str] = {'ms': 'milliseconds for an image', 'megabytes': 'megabytes of the file'}
        for panel, (cost, name) in zip(panels, names.items(), strict=True):
            best = front(points, cost)
            line = [getattr(point, cost) for point in best], [point.score for point in best]
            panel.plot(*line, '--', color='0.6', zorder=1, label='no other file is better')
            for index, point in enumerate(points):
                colour = COLOURS[index % len(COLOURS)]
                panel.scatter(getattr(point, cost), point.score, color=colour, label=plain(point.label), zorder=2)
            panel.set_xscale('log')
            costs = [getattr(point, cost) for point in points]
            panel.set_xlim(min(costs) / 1.5, max(costs) * 1.5)
            panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f'{value:g}'))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.set_xlabel(name)
        panels[0].set_ylabel(metric)
        scores = [point.score for point in points if not math.isnan(point.score)] or [0.0]
        panels[0].set_ylim(min(scores) - 1, max(scores) + 1)
        panels[1].legend(loc='center left', bbox_to_anchor=(1, 0.5))
        save_picture(figure, path, DPI)
        pyplot.close(figure)


def int8_of(path: Path, examples: Sequence[Image]) -> bytes:
    """A full-precision file in 8 bits by ONNX Runtime's static quantizer, with the metadata that it had."""
    file = read_onnx(path.read_bytes())
    if file.binary_weights:
        raise RebnnError(f'{path} holds binary layers: its rest becomes int8 by rebnn export --int8.')
    inputs = onnx.load(path)
    model = quantize(path, examples[0].valid_size, (feeds_of(inputs, example) for example in examples))
    metadata = {key: text for key, text in file.metadata.items() if key != DIGEST_KEY}
    onnx.helper.set_model_props(model, metadata)
    return seal(model.SerializeToString())
