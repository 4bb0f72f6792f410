"""Anchors for the boxes of a data set: sizes and shapes, and how well they overlap with the boxes.

Sides are widths and heights in pixels of the network's input, (K, 2). Scales are roots of areas in strides, ratios
heights over widths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ENOUGH = 0.5
"""Overlap from which a box counts as covered."""

NUMBERS = (2, 3, 4, 5)
SHAPES = ((1.0,), (0.8, 1.25), (0.7, 1.4), (0.5, 1.0, 2.0), (0.4, 1.0, 2.5), (0.33, 0.7, 1.4, 3.0))
"""Ratios of height to width that are tried."""

SCALES = (2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0)
"""Scales of a pyramid that are tried, smallest anchors in strides of their map; with smaller ones there are gaps."""

HARDLY = 0.05
"""Covered share and mean overlap together that another scale of a pyramid has to bring."""

WORTH = 0.015
"""How much of the covered share and the mean overlap together an additional anchor has to bring."""


class Anchors(NamedTuple):
    """Anchors of one map; the share of the boxes that the nearest covers by a half, and the mean of their overlaps."""

    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    covered: float
    overlap: float

    @property
    def fit(self) -> float:
        """Sum of both, by which anchors are compared."""
        return self.covered + self.overlap


def equal_classes(labels: Sequence[object]) -> NDArray:
    """A weight for each box with which all classes count the same, however many boxes they have."""
    counts = Counter(labels)
    return np.array([1 / (len(counts) * counts[label]) for label in labels])


def fit_of(
    sides: NDArray, scales: Sequence[float], ratios: Sequence[float], stride: int, weights: NDArray | None = None
) -> Anchors:
    """How anchors fit boxes: each box against the nearest anchor at the same centre."""
    areas = np.array([(stride * scale) ** 2 for scale, _ in product(scales, ratios)])
    shapes = np.array([ratio for _, ratio in product(scales, ratios)])
    anchors = np.stack([np.sqrt(areas / shapes), np.sqrt(areas * shapes)], axis=1)
    both = np.minimum(sides[:, None], anchors).prod(axis=2)
    overlap = (both / (sides.prod(axis=1)[:, None] + areas - both)).max(axis=1)
    covered, mean = (float(np.average(values, weights=weights)) for values in (overlap >= ENOUGH, overlap))
    return Anchors(tuple(scales), tuple(ratios), covered, mean)


def choose_anchors(sides: NDArray, stride: int, weights: NDArray | None = None) -> Anchors:
    """The fewest anchors, of scales in a geometric row, beyond which more would hardly fit better."""
    roots = np.sqrt(sides.prod(axis=1)) / stride
    order = np.argsort(roots)
    share = np.cumsum(np.ones(len(roots)) if weights is None else weights[order])
    best: Anchors | None = None
    for number, ratios in sorted(product(NUMBERS, SHAPES), key=lambda pair: pair[0] * len(pair[1])):
        ends = np.searchsorted(share, np.array([0.4 / number, 1 - 0.4 / number]) * share[-1])
        small, large = np.maximum(roots[order[np.minimum(ends, len(roots) - 1)]], 0.1)
        # One scale where all boxes have one size.
        scales = sorted({round(float(scale), 2) for scale in np.geomspace(small, large, number)})
        tried = fit_of(sides, scales, ratios, stride, weights)
        more = 0 if best is None else max(len(scales) * len(ratios) - len(best.scales) * len(best.ratios), 0)
        if best is None or tried.fit - best.fit > WORTH * more:
            best = tried
    assert best is not None
    return best


def choose_scale(
    sides: NDArray, steps: Sequence[float], given: Anchors, weights: NDArray | None = None
) -> tuple[float, Anchors]:
    """The scale and the ratios, of as many as given, with which a pyramid's anchors fit best, or the base's.

    ``steps`` are the roots of all anchors' areas in pixels at a scale of 1, and ``given`` has its scales in pixels.
    """
    best, found = given.scales[0] / steps[0], given
    for scale, ratios in product(SCALES, dict.fromkeys((given.ratios, *SHAPES))):
        if len(ratios) == len(given.ratios):
            tried = fit_of(sides, [scale * step for step in steps], ratios, 1, weights)
            if tried.fit > max(found.fit, given.fit + HARDLY) and tried.covered >= given.covered:
                best, found = scale, tried
    return best, found


def describe_generator_change(
    generator: Mapping[str, Any], sides: NDArray, weights: NDArray | None = None
) -> tuple[dict[str, Any], Anchors, Anchors] | None:
    """Change a config of mmdet's ``AnchorGenerator``; return it with both sets of anchors, unchanged if they fit.

    Those of one map are chosen freely, those of a pyramid by scale and ratios. None for one of another kind.
    """
    strides: list[Any] = list(generator.get('strides') or ())
    octave = generator.get('octave_base_scale')
    if (octave is None and 'scales' not in generator) or not all(isinstance(stride, int) for stride in strides):
        return None
    ratios: tuple[float, ...] = tuple(generator['ratios'])
    if len(strides) == 1 and octave is None:
        old = fit_of(sides, generator['scales'], ratios, strides[0], weights)
        new = choose_anchors(sides, strides[0], weights)
        if old.fit >= new.fit or new.covered < old.covered:
            return {}, old, old
        return dict(scales=list(new.scales), ratios=list(new.ratios)), old, new
    if octave is None:
        rows = [scale / generator['scales'][0] for scale in generator['scales']]
        octave = generator['scales'][0]
    else:
        number = generator.get('scales_per_octave') or 1
        rows = [2 ** (step / number) for step in range(number)]
    steps = [stride * row for stride in strides for row in rows]
    old = fit_of(sides, [octave * step for step in steps], ratios, 1, weights)
    scale, new = choose_scale(sides, steps, old, weights)
    key, value = ('scales', [scale * row for row in rows]) if 'scales' in generator else ('octave_base_scale', scale)
    return {key: value, 'ratios': list(new.ratios)}, old, new
