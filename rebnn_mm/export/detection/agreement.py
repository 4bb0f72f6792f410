"""Whether two sets of detections are the same."""

from typing import NamedTuple

import numpy as np

IOU = 0.999
"""Least overlap of two boxes that count as the same."""

SCORE = 1e-4
"""Largest difference of two scores that count as the same."""


class Agreement(NamedTuple):
    """What :func:`agreement` finds.

    Attributes:
        missing: detections of the first set without a partner.
        extra: detections of the second set without one.
        iou: least overlap of two partners; 1 if there are none.
        score: largest difference of two partners' scores; 0 if there are none.
    """

    missing: int
    extra: int
    iou: float
    score: float

    @property
    def same(self) -> bool:
        """Whether every detection has a partner with an overlap and a score as close as asked for."""
        return not self.missing and not self.extra and self.iou >= IOU and self.score <= SCORE


Found = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Corners [K, 4], scores [K] and labels [K]."""


def agreement(first: Found, second: Found) -> Agreement:
    """Match two sets of detections of one image, each with at most one of the other.

    Partners have the same label and overlap by half or more; the closest scores among the largest overlaps go first,
    in the order of the first set. The order inside a set does not matter otherwise: equal scores have none.

    Args:
        first: the reference.
        second: what is compared with it.

    Example:
        >>> box, label = np.array([[0., 0., 10., 10.]]), np.array([2])
        >>> agreement((box, np.array([0.5]), label), (box, np.array([0.25]), label))
        Agreement(missing=0, extra=0, iou=1.0, score=0.25)
    """
    boxes, scores, labels = first
    overlap = _overlaps(boxes, second[0])
    overlap[labels[:, None] != second[2][None]] = 0
    free = np.ones(len(second[0]), bool)
    least, most, missing = 1.0, 0.0, 0
    for row, score in zip(overlap, scores, strict=True):
        candidates = np.flatnonzero(free & (row >= max(0.5, (row * free).max(initial=0) - 1e-3)))
        if not len(candidates):
            missing += 1
            continue
        best = candidates[np.abs(second[1][candidates] - score).argmin()]
        free[best] = False
        least, most = min(least, float(row[best])), max(most, float(abs(second[1][best] - score)))
    return Agreement(missing, int(free.sum()), least, most)


def _overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Intersection over union of corners [K, 4] and [L, 4]: [K, L]; two equal boxes without area overlap by 1."""
    first, second = first.astype(np.float64)[:, None], second.astype(np.float64)[None]
    start, end = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    shared = np.clip(end - start, 0, None).prod(-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(-1) for boxes in (first, second)]
    union = areas[0] + areas[1] - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), (first == second).all(-1))
