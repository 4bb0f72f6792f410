"""Boxes of a head in a graph whose image has any size: priors, what is decoded from them, and which survive."""

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from .graph import GraphBuilder

SIDE_RATIO = 16 / 1000
"""Smallest ratio of a box's side to its prior's; mmdet's ``wh_ratio_clip``."""


def image_corners(g: GraphBuilder, valid_size: ir.Value) -> ir.Value:
    """The image's size (height, width), int64 [2], as the limit of corners: float [4], (w, h, w, h)."""
    return g('Gather', g('Cast', valid_size, to=ir.DataType.FLOAT), [1, 0, 1, 0])


def grid(g: GraphBuilder, feature_map: ir.Value, stride: tuple[int, int], offset: float) -> ir.Value:
    r"""Image coordinates (x, y) of every cell of a map [1, C, H, W], row by row: float [H * W, 2].

    .. math:: x_j = (j + offset) \cdot stride_x, \qquad y_i = (i + offset) \cdot stride_y

    Args:
        g: the graph to write into.
        feature_map: only its size is used.
        stride: image pixels per cell, horizontally and vertically.
        offset: of the cell's origin, in cells.

    Source: mmdet's ``AnchorGenerator`` (offset 0) and ``MlvlPointGenerator``, in their order of operations.

    Example:
        >>> g = GraphBuilder('cells')
        >>> centres = grid(g, g.input('x', ir.DataType.FLOAT, [1, 8, 'h', 'w']), (16, 16), 0.5)
        >>> centres.producer().op_type
        'Reshape'
    """
    size = g('Shape', feature_map, start=2)
    axes = []
    for dim, step in ((1, stride[0]), (0, stride[1])):
        count = g('Gather', size, dim)
        cells = g('Cast', g('Range', 0, count, 1), to=ir.DataType.FLOAT)
        axes.append(g('Mul', g('Add', cells, offset) if offset else cells, float(step)))
    x = g('Expand', g('Unsqueeze', axes[0], [0]), size)
    y = g('Expand', g('Unsqueeze', axes[1], [1]), size)
    both = g('Concat', g('Unsqueeze', x, [2]), g('Unsqueeze', y, [2]), axis=2)
    return g('Reshape', both, [-1, 2])


def priors(g: GraphBuilder, feature_map: ir.Value, generator: Any, level: int) -> ir.Value:
    """Compute the priors of a map [1, C, H, W] as mmdet's ``generator.single_level_grid_priors`` does.

    Args:
        g: the graph to write into.
        feature_map: of this level; only its size is used.
        generator: an ``AnchorGenerator`` or a ``MlvlPointGenerator`` of mmdet, or a
            :class:`rebnn_mm.models.detection.ClampedSSDAnchorGenerator`.
        level: index of the feature level.

    Returns:
        ir.Value: anchors, float [H * W * A, 4] as corners, or points, float [H * W, 2].

    Example:
        >>> from mmdet.models.task_modules import AnchorGenerator
        >>> g = GraphBuilder('anchors')
        >>> score = g.input('score', ir.DataType.FLOAT, [1, 3, 'h', 'w'])
        >>> generator = AnchorGenerator(strides=[16], ratios=[0.5, 1.0, 2.0], scales=[8])
        >>> _ = priors(g, score, generator, 0)
    """
    stride = generator.strides[level]
    if not hasattr(generator, 'base_anchors'):
        return grid(g, feature_map, stride, generator.offset)
    cells = grid(g, feature_map, stride, 0.0)
    shifts = g('Unsqueeze', g('Concat', cells, cells, axis=1), [1])
    base = generator.base_anchors[level].float().numpy()
    anchors = g('Reshape', g('Add', base[None], shifts), [-1, 4])
    largest = getattr(generator, 'largest_centre', None)
    if largest is None:
        return anchors
    beyond = g('Max', g('Sub', centres(g, anchors), float(largest)), 0.0)
    return g('Sub', anchors, g('Concat', beyond, beyond, axis=1))


def decode(g: GraphBuilder, coder: Any, priors: ir.Value, prediction: ir.Value, limit: ir.Value) -> ir.Value:
    """Corners of boxes, as mmdet's ``coder.decode`` computes them, operation by operation.

    Args:
        g: the graph to write into.
        coder: a ``DeltaXYWHBBoxCoder`` or a ``DistancePointBBoxCoder`` of mmdet.
        priors: corners, float [N, 4], or for distances points, float [N, 2].
        prediction: float [N, 4].
        limit: from :func:`image_corners`.

    Returns:
        ir.Value: float [N, 4], clipped to the image if the coder clips.

    Example:
        >>> from mmdet.models.task_modules import DeltaXYWHBBoxCoder
        >>> g = GraphBuilder('boxes')
        >>> rows = [g.input(name, ir.DataType.FLOAT, ['n', 4]) for name in ('priors', 'deltas')]
        >>> limit = image_corners(g, g.input('valid_size', ir.DataType.INT64, [2]))
        >>> decode(g, DeltaXYWHBBoxCoder(), *rows, limit).producer().op_type
        'Min'
    """
    corners = (
        _from_deltas(g, coder, priors, prediction) if hasattr(coder, 'stds') else _from_sides(g, priors, prediction)
    )
    return g('Min', g('Max', corners, 0.0), limit) if coder.clip_border else corners


def _from_deltas(g: GraphBuilder, coder: Any, priors: ir.Value, deltas: ir.Value) -> ir.Value:
    stds, means = (np.asarray(x, np.float32)[None] for x in (coder.stds, coder.means))
    shift, growth = g.two('Split', g('Add', g('Mul', deltas, stds), means), axis=1, num_outputs=2)
    start, end = g.two('Split', priors, axis=1, num_outputs=2)
    size = g('Sub', end, start)
    centre = g('Add', g('Mul', g('Add', start, end), 0.5), g('Mul', size, shift))
    most = abs(math.log(SIDE_RATIO))
    half = g('Mul', g('Mul', size, g('Exp', g('Clip', growth, -most, most))), 0.5)
    return g('Concat', g('Sub', centre, half), g('Add', centre, half), axis=1)


def _from_sides(g: GraphBuilder, points: ir.Value, distances: ir.Value) -> ir.Value:
    left_top, right_bottom = g.two('Split', distances, axis=1, num_outputs=2)
    return g('Concat', g('Sub', points, left_top), g('Add', points, right_bottom), axis=1)


def centres(g: GraphBuilder, anchors: ir.Value) -> ir.Value:
    """Points in the middle of anchors, float [N, 4] as corners: float [N, 2]."""
    start, end = g.two('Split', anchors, axis=1, num_outputs=2)
    return g('Div', g('Add', end, start), 2.0)


def expected_sides(g: GraphBuilder, integral: Any, logits: ir.Value) -> ir.Value:
    r"""Distances of the sides of boxes from their points, in cells: float [N, 4].

    .. math:: d = \sum_{i=0}^{n} i \cdot softmax(z)_i

    Args:
        g: the graph to write into.
        integral: mmdet's ``Integral``; :math:`n` is its ``reg_max``.
        logits: float [N, 4 * (n + 1)].

    Source: Li et al., "Generalized Focal Loss" (NeurIPS 2020), equation 5.
    """
    shares = g('Softmax', g('Reshape', logits, [-1, integral.reg_max + 1]), axis=1)
    distances = integral.project.float().numpy().reshape(-1, 1)
    return g('Reshape', g('MatMul', shares, distances), [-1, 4])


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
