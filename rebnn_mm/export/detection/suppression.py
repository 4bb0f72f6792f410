"""Non-maximum suppression as mmcv does it."""

from typing import Any

import onnx_ir as ir

from .graph import GraphBuilder


def large_enough(g: GraphBuilder, boxes: ir.Value, min_size: float) -> ir.Value:
    """Positions of the boxes, float [N, 4], whose sides are both longer than ``min_size``: int64 [K]."""
    start, end = g.two('Split', boxes, axis=1, num_outputs=2)
    short = g('ReduceMin', g('Sub', end, start), [1], keepdims=0)
    return g.where(g('Greater', short, float(min_size)))


def suppress(
    g: GraphBuilder, boxes: ir.Value, scores: ir.Value, groups: ir.Value, nms: dict[str, Any] | None, at_most: int
) -> ir.Value:
    """Positions of the boxes that survive, best first: int64 [K].

    mmcv's ``batched_nms`` moves every group of boxes to a place of its own, so that one suppression of all of them
    never compares two groups. The same is done here, not ONNX's suppression by class: the move rounds the coordinates,
    and a box that overlaps another by just the threshold would fall on the other side of it.

    Args:
        g: the graph to write into.
        boxes: corners, float [N, 4].
        scores: float [N].
        groups: class or level of each box, int64 [N]; boxes of different groups do not suppress each other.
        nms: mmdet's config with the key ``iou_threshold``; None keeps all boxes.
        at_most: K is no larger; 0 or less for no limit.

    Example:
        >>> F, I = ir.DataType.FLOAT, ir.DataType.INT64
        >>> g = GraphBuilder('nms')
        >>> candidates = g.input('boxes', F, ['n', 4]), g.input('scores', F, ['n']), g.input('labels', I, ['n'])
        >>> keep = suppress(g, *candidates, dict(type='nms', iou_threshold=0.5), 100)
        >>> sum(node.op_type == 'NonMaxSuppression' for node in g.graph)
        1
    """
    limit = g.all(scores, at_most)
    if nms is None:
        return g.two('TopK', scores, limit)[1]
    if not nms.get('class_agnostic', False):
        # The added zero is for an image without candidates, whose maximum would be undefined.
        furthest = g('ReduceMax', g('Concat', g('Reshape', boxes, [-1]), [0.0], axis=0), keepdims=0)
        step = g('Add', furthest, 1.0)
        move = g('Mul', g('Cast', groups, to=ir.DataType.FLOAT), step)
        boxes = g('Add', boxes, g('Unsqueeze', move, [1]))
    threshold = float(nms['iou_threshold'])
    rows = g('Unsqueeze', boxes, [0]), g('Unsqueeze', scores, [0, 1])
    selected = g('NonMaxSuppression', *rows, limit, [threshold])
    return g('Gather', selected, 2, axis=1)
