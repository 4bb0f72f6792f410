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


def cells(
    g: GraphBuilder, feature_map: ir.Value, places: ir.Value, stride: tuple[int, int], offset: float
) -> ir.Value:
    r"""Image coordinates (x, y) of cells of a map: float [K, 2].

    .. math::

        x = (place \bmod W + offset) \cdot stride_x, \qquad
        y = (\lfloor place / W \rfloor + offset) \cdot stride_y

    Args:
        g: the graph to write into.
        feature_map: [1, H, W, C]; only its size is used.
        places: of the cells, counted row by row, int64 [K].
        stride: image pixels per cell, horizontally and vertically.
        offset: of the cell's origin, in cells.

    Source: mmdet's ``AnchorGenerator`` (offset 0) and ``MlvlPointGenerator``, in their order of operations.

    Example:
        >>> g = GraphBuilder('cells')
        >>> image = g.input('x', ir.DataType.FLOAT, [1, 'h', 'w', 8])
        >>> cells(g, image, g.input('places', ir.DataType.INT64, ['k']), (16, 16), 0.5).producer().op_type
        'Mul'
    """
    size = g('Shape', feature_map)  # the first number is 1
    both = g('Div', g('Unsqueeze', places, [1]), g('Gather', size, [0, 2]))
    both = g('Cast', g('Mod', both, g('Gather', size, [2, 1])), to=ir.DataType.FLOAT)
    return g('Mul', g('Add', both, offset) if offset else both, np.array(stride, np.float32))


def priors(g: GraphBuilder, feature_map: ir.Value, generator: Any, level: int, places: ir.Value) -> ir.Value:
    """Some of what mmdet's ``generator.single_level_grid_priors`` gives for a map.

    Args:
        g: the graph to write into.
        feature_map: of this level, [1, H, W, C]; only its size is used.
        generator: an ``AnchorGenerator`` or a ``MlvlPointGenerator`` of mmdet, or a
            :class:`rebnn_mm.models.detection.ClampedSSDAnchorGenerator`.
        level: index of the feature level.
        places: which of the priors, int64 [K].

    Returns:
        ir.Value: anchors, float [K, 4] as corners, or points, float [K, 2].

    Example:
        >>> from mmdet.models.task_modules import AnchorGenerator
        >>> g = GraphBuilder('anchors')
        >>> score = g.input('score', ir.DataType.FLOAT, [1, 'h', 'w', 3])
        >>> generator = AnchorGenerator(strides=[16], ratios=[0.5, 1.0, 2.0], scales=[8])
        >>> _ = priors(g, score, generator, 0, g.input('places', ir.DataType.INT64, ['k']))
    """
    stride = generator.strides[level]
    if not hasattr(generator, 'base_anchors'):
        return cells(g, feature_map, places, stride, generator.offset)
    base = generator.base_anchors[level].float().numpy()
    corner = cells(g, feature_map, g('Div', places, len(base)) if len(base) > 1 else places, stride, 0.0)
    shapes = g('Gather', base, g('Mod', places, len(base))) if len(base) > 1 else base
    anchors = g('Add', shapes, g('Concat', corner, corner, axis=1))
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
    """Whether the sides of the boxes, float [N, 4], are both longer than ``min_size``: bool [N]."""
    start, end = g.two('Split', boxes, axis=1, num_outputs=2)
    return g('Greater', g('ReduceMin', g('Sub', end, start), [1], keepdims=0), float(min_size))


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
    if nms is None:
        return g.two('TopK', scores, g.all(scores, at_most))[1]
    if not nms.get('class_agnostic', False):
        # The added zero is for an image without candidates, whose maximum would be undefined.
        furthest = g('ReduceMax', g('Concat', g('Reshape', boxes, [-1]), [0.0], axis=0), keepdims=0)
        step = g('Add', furthest, 1.0)
        move = g('Mul', g('Cast', groups, to=ir.DataType.FLOAT), step)
        boxes = g('Add', boxes, g('Unsqueeze', move, [1]))
    threshold = float(nms['iou_threshold'])
    rows = g('Unsqueeze', boxes, [0]), g('Unsqueeze', scores, [0, 1])
    limit = [at_most] if at_most > 0 else g.length(scores)
    selected = g('NonMaxSuppression', *rows, limit, [threshold])
    return g('Gather', selected, 2, axis=1)
