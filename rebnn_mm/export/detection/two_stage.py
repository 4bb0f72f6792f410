"""Proposals, regions and detections of a two-stage detector."""

from typing import Any

import onnx_ir as ir

from .boxes import decode
from .graph import GraphBuilder
from .one_stage import Detections, above, probabilities, rows
from .priors import priors
from .suppression import large_enough, suppress


def proposals(g: GraphBuilder, head: Any, maps: list[tuple[ir.Value, ...]], limit: ir.Value) -> ir.Value:
    """The proposals of mmdet's ``RPNHead`` for one image: corners, float [R, 4], best first.

    Args:
        g: the graph to write into.
        head: the proposal head; its anchors, box coder and ``test_cfg`` are used.
        maps: for each level objectness logits [1, A * C, H, W] and box deltas [1, A * 4, H, W].
        limit: from :func:`rebnn_mm.export.detection.boxes.image_corners`.
    """
    cfg = head.test_cfg
    levels = []
    for level, (logits, deltas) in enumerate(maps):
        grid = priors(g, logits, head.prior_generator, level)
        scores = probabilities(g, rows(g, logits, head.cls_out_channels), head.use_sigmoid_cls)
        scores = g('Reshape', scores, [-1])
        best, order = g.two('TopK', scores, g.all(scores, cfg.get('nms_pre', -1)))
        group = g('Expand', level, g('Shape', best))
        levels.append((best, group, g('Gather', rows(g, deltas, 4), order), g('Gather', grid, order)))
    scores, groups, deltas, grid = (g('Concat', *values, axis=0) for values in zip(*levels, strict=True))
    found = Detections(decode(g, head.bbox_coder, grid, deltas, limit), scores, groups)
    if cfg.get('min_bbox_size', -1) >= 0:
        found = found.at(g, large_enough(g, found.boxes, cfg.min_bbox_size))
    keep = suppress(g, found.boxes, found.scores, found.labels, cfg.nms, cfg.max_per_img)
    return g('Gather', found.boxes, keep)


def pooled_regions(
    g: GraphBuilder, extractor: Any, features: list[ir.Value], regions: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """The features of regions, as mmdet's ``SingleRoIExtractor`` pools them.

    Args:
        g: the graph to write into.
        extractor: the extractor; its ``RoIAlign`` layers and its rule for levels are used.
        features: one map [1, C, H, W] per level.
        regions: corners, float [R, 4].

    Returns:
        tuple[ir.Value, ir.Value]: pooled features, float [R, C, h, w], sorted by level; and where in them each region
        is, int64 [R]. What is computed per region is put in order afterwards, which moves less memory.
    """
    if len(features) == 1:
        everything = g('Range', 0, g('Squeeze', g.length(regions), [0]), 1)
        return _align(g, extractor.roi_layers[0], features[0], regions), everything
    level = _level(g, extractor, regions, len(features))
    members = [g.where(g('Equal', level, i)) for i in range(len(features))]
    pooled = [
        _align(g, layer, x, g('Gather', regions, chosen))
        for layer, x, chosen in zip(extractor.roi_layers, features, members, strict=True)
    ]
    order = g('Concat', *members, axis=0)
    place = g.two('TopK', order, g.length(order), largest=0)[1]
    return g('Concat', *pooled, axis=0), place


def two_stage_detections(
    g: GraphBuilder, head: Any, cfg: Any, regions: ir.Value, logits: ir.Value, deltas: ir.Value, limit: ir.Value
) -> Detections:
    """What mmdet's ``BBoxHead.predict_by_feat`` makes of the second stage's output for one image.

    Args:
        g: the graph to write into.
        head: the box head; its coder is used.
        cfg: ``test_cfg`` of the second stage.
        regions: corners, float [R, 4].
        logits: float [R, classes + 1].
        deltas: float [R, 4], or [R, 4 * classes].
        limit: from :func:`rebnn_mm.export.detection.boxes.image_corners`.

    Returns:
        Detections: best first, in pixels of the padded image.
    """
    classes = head.num_classes
    scores = g('Reshape', probabilities(g, logits, sigmoid=False), [-1])
    positions = above(g, scores, cfg.score_thr)
    region, labels = g('Div', positions, classes), g('Mod', positions, classes)
    chosen = g('Gather', g('Reshape', deltas, [-1, 4]), region if head.reg_class_agnostic else positions)
    boxes = decode(g, head.bbox_coder, g('Gather', regions, region), chosen, limit)
    found = Detections(boxes, g('Gather', scores, positions), labels)
    return found.at(g, suppress(g, found.boxes, found.scores, found.labels, cfg.nms, cfg.max_per_img))


def _align(g: GraphBuilder, layer: Any, x: ir.Value, regions: ir.Value) -> ir.Value:
    image = g('Expand', 0, g.length(regions))
    height, width = layer.output_size
    return g(
        'RoiAlign',
        x,
        regions,
        image,
        output_height=height,
        output_width=width,
        sampling_ratio=max(0, layer.sampling_ratio),
        spatial_scale=layer.spatial_scale,
        coordinate_transformation_mode='half_pixel' if layer.aligned else 'output_half_pixel',
    )


def _level(g: GraphBuilder, extractor: Any, regions: ir.Value, levels: int) -> ir.Value:
    """floor(log2(size / finest_scale + 1e-6)) within the levels.

    By comparisons, because the rounding of a logarithm depends on who computes it.
    """
    start, end = g.two('Split', regions, axis=1, num_outputs=2)
    width, height = g.two('Split', g('Sub', end, start), axis=1, num_outputs=2)
    size = g('Add', g('Div', g('Sqrt', g('Mul', width, height)), float(extractor.finest_scale)), 1e-6)
    steps = g('GreaterOrEqual', size, [2.0**i for i in range(1, levels)])
    return g('ReduceSum', g('Cast', steps, to=ir.DataType.INT64), [1], keepdims=0)
