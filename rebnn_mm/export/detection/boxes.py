"""Boxes from what a head predicts for anchors, points or regions."""

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
