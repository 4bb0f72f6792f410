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

    Source: mmdet's ``AnchorGenerator`` (offset 0) and ``MlvlPointGenerator``, in their order of operations.
    """
    size = g('Shape', feature_map)  # the first number is 1
    both = g('Div', g('Unsqueeze', places, [1]), g('Gather', size, [0, 2]))
    both = g('Cast', g('Mod', both, g('Gather', size, [2, 1])), to=ir.DataType.FLOAT)
    return g('Mul', g('Add', both, offset) if offset else both, np.array(stride, np.float32))


def anchors(g: GraphBuilder, feature_map: ir.Value, generator: Any, level: int, places: ir.Value) -> ir.Value:
    """Corners of some of the anchors of mmdet's ``AnchorGenerator``: float [K, 4]."""
    base = generator.base_anchors[level].float().numpy()
    corner = cells(
        g, feature_map, g('Div', places, len(base)) if len(base) > 1 else places, generator.strides[level], 0.0
    )
    shapes = g('Gather', base, g('Mod', places, len(base))) if len(base) > 1 else base
    return g('Add', shapes, g('Concat', corner, corner, axis=1))


def clamp_anchors(g: GraphBuilder, feature_map: ir.Value, generator: Any, level: int, places: ir.Value) -> ir.Value:
    """Move anchors into the image, as :class:`rebnn_mm.models.detection.ClampedSSDAnchorGenerator` does."""
    found = anchors(g, feature_map, generator, level, places)
    beyond = g('Max', g('Sub', centres(g, found), float(generator.largest_centre)), 0.0)
    return g('Sub', found, g('Concat', beyond, beyond, axis=1))


def points(g: GraphBuilder, feature_map: ir.Value, generator: Any, level: int, places: ir.Value) -> ir.Value:
    """Some of the points of mmdet's ``MlvlPointGenerator``: float [K, 2]."""
    return cells(g, feature_map, places, generator.strides[level], generator.offset)


def from_deltas(g: GraphBuilder, coder: Any, priors: ir.Value, deltas: ir.Value) -> ir.Value:
    """Corners as mmdet's ``DeltaXYWHBBoxCoder`` computes them, operation by operation: float [N, 4]."""
    stds, means = (np.asarray(x, np.float32)[None] for x in (coder.stds, coder.means))
    shift, growth = g.two('Split', g('Add', g('Mul', deltas, stds), means), axis=1, num_outputs=2)
    start, end = g.two('Split', priors, axis=1, num_outputs=2)
    size = g('Sub', end, start)
    centre = g('Add', g('Mul', g('Add', start, end), 0.5), g('Mul', size, shift))
    most = abs(math.log(SIDE_RATIO))
    half = g('Mul', g('Mul', size, g('Exp', g('Clip', growth, -most, most))), 0.5)
    return g('Concat', g('Sub', centre, half), g('Add', centre, half), axis=1)


def from_sides(g: GraphBuilder, coder: Any, points: ir.Value, distances: ir.Value) -> ir.Value:
    """Corners as mmdet's ``DistancePointBBoxCoder`` computes them: float [N, 4]."""
    left_top, right_bottom = g.two('Split', distances, axis=1, num_outputs=2)
    return g('Concat', g('Sub', points, left_top), g('Add', points, right_bottom), axis=1)


def centres(g: GraphBuilder, anchors: ir.Value) -> ir.Value:
    """Points in the middle of anchors, float [N, 4] as corners: float [N, 2]."""
    start, end = g.two('Split', anchors, axis=1, num_outputs=2)
    return g('Div', g('Add', end, start), 2.0)


def compute_expected_sides(g: GraphBuilder, integral: Any, logits: ir.Value) -> ir.Value:
    r"""Distances of the sides of boxes from their points, in cells: float [N, 4].

    .. math:: d = \sum_{i=0}^{n} i \cdot softmax(z)_i

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
    """Positions of the boxes that survive, best first, and at most ``at_most`` if that is above 0: int64 [K].

    mmcv's ``batched_nms`` moves every group of boxes to a place of its own, so that one suppression of all of them
    never compares two groups. The same is done here, not ONNX's suppression by class: the move rounds the coordinates,
    and a box that overlaps another by just the threshold would fall on the other side of it.
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
