"""How far the outputs of two files of the same model are apart, or those of a file and PyTorch's."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx

from rebnn_mm.deploy.session import open_session

from ..errors import RebnnError
from .distance import distance_of
from .examples import Example, feeds_of
from .metadata import is_blocked
from .tasks import CLASSIFIED, Task

FEW_BOXES = 8
"""Boxes that may come and go in any case: what has few on a threshold is not spoilt."""

Arrays = list[np.ndarray]
"""Outputs of a model, or of its file, for one example."""

IOU = 0.999
"""Least overlap of two boxes that count as the same."""

ROUNDING = 1e-2
"""Corners no further apart, in pixels, are the same: of a box narrower than a pixel, rounding changes any overlap."""

SCORE = 1e-4
"""Largest difference of two scores that count as the same."""

TIE = 1e-5
"""Scores that are no further apart tie: which is the larger one is up to rounding."""


class Agreement(NamedTuple):
    """Result of :func:`agreement`."""

    missing: int  # detections of the first set without a partner
    extra: int  # detections of the second set without one
    iou: float  # least overlap of two partners; 1 if there are none
    score: float  # largest difference of two partners' scores; 0 if there are none

    @property
    def same(self) -> bool:
        """Whether every detection has a partner with an overlap and a score as close as asked for."""
        return not self.missing and not self.extra and self.iou >= IOU and self.score <= SCORE


Found = Sequence[np.ndarray]
"""Corners [K, 4], scores [K] and labels [K]."""


class Difference(NamedTuple):
    """Effect of an option, compared with the same file without it."""

    difference: float  # largest difference of an output; for a detector, of the score of the same box
    top1: int  # images or texts with the same best class, for a classifier
    images: int  # how many were compared
    detections: list[Agreement]  # agreement of each image's boxes, for a detector
    relative: float = 0.0  # largest difference of an output to its largest value; 0 for a detector
    boxes: int = 0  # how many a detector gives without the option

    def find_damage(self, task: Task) -> str:
        """Say in words that answers are others by more than half; empty if they are not."""
        missing, extra = (sum(getattr(image, kind) for image in self.detections) for kind in ('missing', 'extra'))
        if task.name in CLASSIFIED and 2 * self.top1 < self.images:
            return f'the best class is another one on {self.images - self.top1} of {self.images} images'
        if missing + extra > max(self.boxes, FEW_BOXES):
            return f'of {self.boxes} boxes {missing} are gone, and {extra} are new'
        if task.name not in CLASSIFIED and self.relative > 0.5:
            return f'outputs differ by {self.relative:.0%} of the largest'
        return ''


def difference_of(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    task: Task,
    examples: Sequence[Example],
    *,
    option: str,
    library: bool = False,
) -> Difference:
    """Compare two graphs."""
    onnx.checker.check_model(after, full_check=True)
    sessions = [
        open_session(model.SerializeToString(), library=library, blocked=is_blocked(model))
        for model in (before, after)
    ]
    largest, relative, top1, count, boxes = 0.0, 0.0, 0, 0, 0
    detections = []
    for example in examples:
        feeds = feeds_of(before, example)
        first, second = (session.run(None, feeds) for session in sessions)
        if not all(np.isfinite(value).all() for value in second):
            raise RebnnError(f'with {option} an output is not finite. Export without {option}.')
        top1 += same_best(task, first, second)
        count += len(next(iter(feeds.values())))
        if task.name == 'detection':
            detections.append(agreement(first, second))
            largest = max(largest, detections[-1].score)
            boxes += len(first[1])
        else:
            for a, b in zip(first, second, strict=True):
                if a.shape == b.shape:
                    distance = distance_of(a, b)
                    largest, relative = max(largest, distance.absolute), max(relative, distance.relative)
    return Difference(largest, top1, count, detections, relative, boxes)


def same_best(task: Task, first: Arrays, second: Arrays) -> int:
    """How many of a batch have the same best class; none where there are no classes."""
    if task.name not in CLASSIFIED:
        return 0
    return int((first[0].argmax(-1) == second[0].argmax(-1)).sum())


def agreement(first: Found, second: Found) -> Agreement:
    """Match two sets of detections of one image, each with at most one of the other.

    Partners have the same label and overlap by half or more; the closest scores among the largest overlaps go first,
    in the order of the first set. The order inside a set does not matter otherwise: equal scores have none.
    """
    boxes, scores, labels = first
    overlap = overlaps(boxes, second[0])
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


def match_except_ties(first: Found, second: Found) -> bool:
    """Check that every detection has its partner in the other set, as close as :attr:`Agreement.same` asks for.

    Scores decide which boxes suppression and a limit keep. Of boxes with one and the same score (a sigmoid that gives
    1 for many) either may be kept: such a box may have another of that score as partner, as long as some have their
    own.
    """
    close = (overlaps(first[0], second[0]) >= IOU) & (first[2][:, None] == second[2][None])
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


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute the intersection over union of corners [K, 4] and [L, 4]: [K, L]; equal up to rounding is 1."""
    first, second = first.astype(np.float64)[:, None], second.astype(np.float64)[None]
    start, end = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    shared = np.clip(end - start, 0, None).prod(-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(-1) for boxes in (first, second)]
    union = areas[0] + areas[1] - shared
    equal = (np.abs(first - second) <= ROUNDING).all(-1)
    return np.where(equal, 1, shared / np.where(union > 0, union, 1))
