"""Anchors for the boxes of a data set: sizes and shapes, and how well they overlap with the boxes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ENOUGH = 0.5
"""Overlap from which a box counts as covered."""

NUMBERS = (2, 3, 4, 5)
SHAPES = ((1.0,), (0.8, 1.25), (0.7, 1.4), (0.5, 1.0, 2.0), (0.4, 1.0, 2.5), (0.33, 0.7, 1.4, 3.0))
"""Ratios of height to width that are tried."""

WORTH = 0.01
"""How much more cover, or a tenth of it in mean overlap, an additional anchor has to bring."""


class Anchors(NamedTuple):
    """Anchors of one map.

    Attributes:
        scales: roots of their areas in strides.
        ratios: heights over widths.
        covered: share of the boxes that overlap with the nearest by at least a half.
        overlap: mean of the boxes' overlaps with the nearest.
    """

    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    covered: float
    overlap: float


def fit_of(sides: NDArray, scales: Sequence[float], ratios: Sequence[float], stride: int) -> Anchors:
    """How anchors fit boxes: each box against the nearest anchor at the same centre.

    Args:
        sides: widths and heights in pixels of the network's input, (K, 2).
        scales: roots of the anchors' areas in strides.
        ratios: heights over widths.
        stride: of the map.

    Example:
        >>> fit_of(np.array([[32., 32.], [16., 32.]]), [2], [1], 16).overlap
        0.75
    """
    areas = np.array([(stride * scale) ** 2 for scale, _ in product(scales, ratios)])
    shapes = np.array([ratio for _, ratio in product(scales, ratios)])
    anchors = np.stack([np.sqrt(areas / shapes), np.sqrt(areas * shapes)], axis=1)
    both = np.minimum(sides[:, None], anchors).prod(axis=2)
    overlap = (both / (sides.prod(axis=1)[:, None] + areas - both)).max(axis=1)
    return Anchors(tuple(scales), tuple(ratios), float((overlap >= ENOUGH).mean()), float(overlap.mean()))


def choose_anchors(sides: NDArray, stride: int) -> Anchors:
    """The fewest anchors with which more would hardly cover better.

    Scales are in a geometric row between the small and the large boxes.

    Args:
        sides: widths and heights in pixels of the network's input, (K, 2).
        stride: of the map.

    Example:
        >>> sides = np.exp(np.random.default_rng(0).normal(3.5, 0.4, (500, 1))) * np.ones(2)
        >>> chosen = choose_anchors(sides, 16)
        >>> chosen.ratios, chosen.covered > 0.97
        ((1.0,), True)
    """
    roots = np.sqrt(sides.prod(axis=1)) / stride
    best: Anchors | None = None
    for number, ratios in sorted(product(NUMBERS, SHAPES), key=lambda pair: pair[0] * len(pair[1])):
        ends = np.quantile(roots, [0.5 / number, 1 - 0.5 / number])
        scales = [round(float(scale), 2) for scale in np.geomspace(*np.maximum(ends, 0.1), number)]
        tried = fit_of(sides, scales, ratios, stride)
        if best is None or _gain(tried, best) > WORTH * _more(tried, best):
            best = tried
    assert best is not None
    return best


def _gain(new: Anchors, old: Anchors) -> float:
    return new.covered - old.covered + (new.overlap - old.overlap) / 10


def _more(new: Anchors, old: Anchors) -> int:
    """Of how many anchors the new ones are more than the old ones."""
    return max(len(new.scales) * len(new.ratios) - len(old.scales) * len(old.ratios), 0)
