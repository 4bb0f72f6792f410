"""Anchors and points of a feature map whose size is known only when the graph runs."""

from typing import Any

import onnx_ir as ir

from .graph import GraphBuilder


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
    """What mmdet's ``generator.single_level_grid_priors`` gives for a map [1, C, H, W].

    Args:
        g: the graph to write into.
        feature_map: of this level; only its size is used.
        generator: an ``AnchorGenerator`` or a ``MlvlPointGenerator`` of mmdet.
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
    return g('Reshape', g('Add', base[None], shifts), [-1, 4])
