"""The ratio of two networks' times, with how far it moves."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Ratio(NamedTuple):
    """How many times as long the first takes.

    Attributes:
        value: ratio of the medians of all runs.
        low: the ratio of the medians within a block of runs is lower in one block of ten.
        high: it is higher in one block of ten.
    """

    value: float
    low: float
    high: float


def ratio_of(slow: Sequence[float], fast: Sequence[float], block: int) -> Ratio:
    """Compare times that were measured in turns, ``block`` runs of each at a time.

    Raises:
        ValueError: the two have not the same number of runs, or none.

    Example:
        >>> ratio_of([8.0, 8.0, 9.0, 9.0], [2.0, 2.0, 3.0, 3.0], 2)
        Ratio(value=3.4, low=3.1, high=3.9)
    """
    if len(slow) != len(fast) or not slow:
        raise ValueError(f'{len(slow)} and {len(fast)} runs cannot be compared block by block.')
    blocks = [
        statistics.median(slow[start : start + block]) / statistics.median(fast[start : start + block])
        for start in range(0, len(slow), block)
    ]
    low, high = np.percentile(blocks, [10, 90])
    return Ratio(statistics.median(slow) / statistics.median(fast), round(float(low), 3), round(float(high), 3))
