"""How far two arrays of outputs are apart: numbers by their difference, truth values and whole numbers by equality."""

from typing import NamedTuple

import numpy as np


class Distance(NamedTuple):
    """Result of :func:`distance_of`."""

    absolute: float  # largest difference; of truth values and whole numbers, the share of those that are others
    relative: float  # to the largest value of the first array; of truth values and whole numbers, the share again


def distance_of(first: np.ndarray, second: np.ndarray) -> Distance:
    """Measure how far the second array is from the first; what is not finite in either counts for nothing."""
    if first.dtype.kind in 'biu' or second.dtype.kind in 'biu':
        share = float(np.not_equal(first, second).mean()) if first.size else 0.0
        return Distance(share, share)
    finite = np.isfinite(first) & np.isfinite(second)
    here = float(np.abs(first[finite] - second[finite]).max(initial=0))
    scale = float(np.abs(first[finite]).max(initial=0))
    return Distance(here, here / scale if scale else float('inf') * bool(here))
