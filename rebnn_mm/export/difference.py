"""How far two files of the same model are apart."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx

from rebnn_mm.deploy.session import open_session

from .detection.agreement import Agreement, agreement
from .task import Task
from .verify import Example, feeds_of, same_best


class Difference(NamedTuple):
    """What an option changes, against the same file without it.

    Attributes:
        difference: largest difference of an output; for a detector, of the score of the same box.
        top1: images or texts with the same best class, for a classifier.
        images: how many were compared.
        detections: agreement of each image's boxes, for a detector.
    """

    difference: float
    top1: int
    images: int
    detections: list[Agreement]


def difference_of(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    task: Task,
    examples: Sequence[Example],
    *,
    option: str,
    library: bool = False,
) -> Difference:
    """Compare two graphs.

    Args:
        before: the graph without the option.
        after: the graph with it.
        task: of both.
        examples: what to compare on.
        option: the option's name, for messages.
        library: run both with our kernels, not by the functions inside of them.

    Raises:
        ValueError: an output is not finite any more.
    """
    onnx.checker.check_model(after, full_check=True)
    sessions = [open_session(model.SerializeToString(), library=library) for model in (before, after)]
    largest, top1, count = 0.0, 0, 0
    detections = []
    for example in examples:
        feeds = feeds_of(before, example)
        first, second = (session.run(None, feeds) for session in sessions)
        if not all(np.isfinite(value).all() for value in second):
            raise ValueError(f'with {option} an output is not finite. Export without {option}.')
        top1 += same_best(task, first, second)
        count += len(next(iter(feeds.values())))
        if task.name == 'detection':
            detections.append(agreement((first[0], first[1], first[2]), (second[0], second[1], second[2])))
            largest = max(largest, detections[-1].score)
        else:
            pairs = [(a, b) for a, b in zip(first, second, strict=True) if a.shape == b.shape]
            largest = max([largest, *(float(np.abs(a - b).max(initial=0)) for a, b in pairs)])
    return Difference(largest, top1, count, detections)
