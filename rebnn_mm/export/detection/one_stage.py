"""Detections from the maps of a one-stage head."""

from typing import Any, NamedTuple

import onnx_ir as ir

from .boxes import decode
from .graph import GraphBuilder
from .priors import priors
from .suppression import large_enough, suppress


class Detections(NamedTuple):
    """Values of a graph that describe the objects of one image."""

    boxes: ir.Value
    """Corners, float [K, 4]."""
    scores: ir.Value
    """Float [K]."""
    labels: ir.Value
    """Int64 [K]."""

    def at(self, g: GraphBuilder, positions: ir.Value) -> 'Detections':
        """Those at the given positions, in their order."""
        return Detections(*(g('Gather', values, positions) for values in self))


def rows(g: GraphBuilder, feature_map: ir.Value, columns: int) -> ir.Value:
    """A map [1, A * columns, H, W] as [H * W * A, columns]."""
    return g('Reshape', g('Transpose', feature_map, perm=[0, 2, 3, 1]), [-1, columns])


def probabilities(g: GraphBuilder, logits: ir.Value, sigmoid: bool) -> ir.Value:
    """Class scores [N, classes] of logits: a sigmoid, or a softmax without its last column, the background."""
    if sigmoid:
        return g('Sigmoid', logits)
    return g('Slice', g('Softmax', logits, axis=1), [0], [-1], [1])


def above(g: GraphBuilder, scores: ir.Value, threshold: float) -> ir.Value:
    """Positions in flat scores, float [N], that are above the threshold: int64 [K]."""
    return g.where(g('Greater', scores, float(threshold)))


def one_stage_detections(
    g: GraphBuilder,
    head: Any,
    maps: list[tuple[ir.Value, ...]],
    limit: ir.Value,
) -> Detections:
    """What mmdet's ``BaseDenseHead.predict_by_feat`` makes of the maps of one image.

    Per level the best ``nms_pre`` pairs of prior and class above ``score_thr``; all levels' boxes decoded, multiplied
    by their score factor where the head has one, and suppressed class by class.

    Args:
        g: the graph to write into.
        head: a dense head of mmdet; its prior generator, box coder and ``test_cfg`` are used.
        maps: for each level class logits [1, A * C, H, W], boxes [1, A * 4, H, W] and, if the head has them, score
            factors (centre-ness) [1, A, H, W].
        limit: from :func:`rebnn_mm.export.detection.boxes.image_corners`.

    Returns:
        Detections: best first, in pixels of the padded image.
    """
    cfg = head.test_cfg
    levels = [_candidates(g, head, level, *of_level) for level, of_level in enumerate(maps)]
    scores, labels, prediction, grid, *factors = (g('Concat', *values, axis=0) for values in zip(*levels, strict=True))
    boxes = decode(g, head.bbox_coder, grid, prediction, limit)
    found = Detections(boxes, g('Mul', scores, factors[0]) if factors else scores, labels)
    if cfg.get('min_bbox_size', -1) >= 0:
        found = found.at(g, large_enough(g, found.boxes, cfg.min_bbox_size))
    return found.at(g, suppress(g, found.boxes, found.scores, found.labels, cfg.nms, cfg.max_per_img))


def _candidates(
    g: GraphBuilder, head: Any, level: int, logits: ir.Value, boxes: ir.Value, factor: ir.Value | None = None
) -> list[ir.Value]:
    """Scores [K], labels [K], box predictions [K, 4], priors [K, 4 or 2], and factors [K] if there are any."""
    classes = head.cls_out_channels
    grid = priors(g, logits, head.prior_generator, level)
    scores = probabilities(g, rows(g, logits, classes), head.use_sigmoid_cls)
    classes -= 0 if head.use_sigmoid_cls else 1
    flat = g('Reshape', scores, [-1])
    positions = above(g, flat, head.test_cfg.get('score_thr', 0))
    best, order = g.two('TopK', g('Gather', flat, positions), g.all(positions, head.test_cfg.nms_pre))
    positions = g('Gather', positions, order)
    anchors = g('Div', positions, classes)
    values = [best, g('Mod', positions, classes), g('Gather', rows(g, boxes, 4), anchors), g('Gather', grid, anchors)]
    if factor is not None:
        values.append(g('Gather', g('Sigmoid', g('Reshape', rows(g, factor, 1), [-1])), anchors))
    return values
