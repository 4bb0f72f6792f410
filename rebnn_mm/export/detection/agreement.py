"""Whether two sets of detections are the same."""

from typing import NamedTuple

import numpy as np

IOU = 0.999
"""Least overlap of two boxes that count as the same."""

ROUNDING = 1e-2
"""Corners no further apart, in pixels, are the same: of a box narrower than a pixel, rounding changes any overlap."""

SCORE = 1e-4
"""Largest difference of two scores that count as the same."""

TIE = 1e-5
"""Scores that are no further apart tie: which is the larger one is up to rounding."""


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


def same_but_for_ties(first: Found, second: Found) -> bool:
    """Whether every detection has its partner in the other set, as close as :attr:`Agreement.same` asks for.

    Scores decide which boxes suppression and a limit keep. Of boxes with one and the same score (a sigmoid that gives
    1 for many) either may be kept: such a box may have another of that score as partner, as long as some have their
    own.

    Args:
        first: the reference.
        second: what is compared with it.

    Example:
        >>> boxes, labels = np.array([[0., 0., 10., 10.], [0., 0., 90., 90.], [50., 0., 60., 10.]]), np.zeros(2, int)
        >>> one, other = (boxes[:2], np.ones(2), labels), (boxes[1:], np.ones(2), labels)
        >>> same_but_for_ties(one, other), agreement(one, other).same
        (True, False)
    """
    close = (_overlaps(first[0], second[0]) >= IOU) & (first[2][:, None] == second[2][None])
    close &= np.abs(first[1][:, None] - second[1][None]) <= SCORE
    alone, free = [], np.ones(len(second[0]), bool)
    for row, score in zip(close, first[1], strict=True):
        partners = np.flatnonzero(row & free)
        free[partners[:1]] = False
        if not len(partners):
            alone.append(score)
    left = second[1][free]
    if len(alone) != len(left) or (alone and len(alone) == len(first[1])):
        return False
    ties = (np.abs(first[1][:, None] - np.array(alone)) <= TIE).sum(0)
    return bool((np.abs(np.sort(alone) - np.sort(left)) <= TIE).all() and (ties > 1).all())


def _overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Intersection over union of corners [K, 4] and [L, 4]: [K, L]; boxes equal up to rounding overlap by 1."""
    first, second = first.astype(np.float64)[:, None], second.astype(np.float64)[None]
    start, end = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    shared = np.clip(end - start, 0, None).prod(-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(-1) for boxes in (first, second)]
    union = areas[0] + areas[1] - shared
    equal = (np.abs(first - second) <= ROUNDING).all(-1)
    return np.where(equal, 1, shared / np.where(union > 0, union, 1))
