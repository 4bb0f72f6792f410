"""A detector as one graph, from the image to boxes, scores and labels, as mmdet's classes compute them."""

from typing import Any, NamedTuple

import onnx
import onnx_ir as ir
import torch
from torch import Tensor, nn

from ...errors import RebnnError
from ..trace import trace
from .boxes import centres, decode, expected_sides, image_corners, large_enough, priors, suppress
from .graph import GraphBuilder
from .stages import ImageStage, RegionStage, example_image, two_stage, unsupported

EXAMPLE_REGIONS = 3


class Detections(NamedTuple):
    """Values of a graph that describe the objects of one image."""

    boxes: ir.Value
    """Corners, float [K, 4]."""
    scores: ir.Value
    """Float [K]."""
    labels: ir.Value
    """Int64 [K]."""

    def at(self, g: GraphBuilder, positions: ir.Value) -> 'Detections':
        """Select the entries at the given positions, in their order."""
        return Detections(*(g('Gather', values, positions) for values in self))


def detector_graph(model: nn.Module) -> onnx.ModelProto:
    """The graph of a detector, with dynamic image size; its inputs and outputs are in docs/format.md.

    Convolutions and linear layers are traced; what mmdet does around them when it predicts (anchors, decoding, top-k,
    non-maximum suppression, RoIAlign) is written with standard operators, in mmdet's order of operations. Packed
    layers are operators of ours, and the functions that define them are attached.

    Args:
        model: a one-stage or two-stage detector of mmdet in eval mode, as a rule packed by
            :func:`rebnn_mm.export.pack`. Thresholds and limits are those of its ``test_cfg``.

    Raises:
        ValueError: the model's prediction has no graph; the message says why.

    Example:
        >>> detector_graph(nn.Conv2d(3, 8, 1))
        Traceback (most recent call last):
        rebnn_mm.errors.RebnnError: Conv2d cannot be exported with boxes as outputs: it is no detector of mmdet.
    """
    reason = unsupported(model)
    if reason:
        raise RebnnError(f'{type(model).__name__} cannot be exported with boxes as outputs: {reason}.')
    stage = ImageStage(model)
    example = example_image(model)
    with torch.no_grad():
        maps, features = stage(example)
    part = trace(stage, {'image': example}, _numbered('map', maps) + _numbered('feature', features), {'image': [2, 3]})

    g = GraphBuilder('detector')
    image = g.input('image', ir.DataType.FLOAT, [1, example.shape[1], 'height', 'width'])
    limit = image_corners(g, g.input('valid_size', ir.DataType.INT64, [2]))
    values = g.insert(ir.from_proto(part), image)
    head: Any = model.rpn_head if two_stage(model) else model.bbox_head
    levels = head.prior_generator.num_levels
    by_level = [tuple(values[level : len(maps) : levels]) for level in range(levels)]
    if two_stage(model):
        found = _second_stage(g, model, by_level, values[len(maps) :], features, limit)
    else:
        found = one_stage_detections(g, head, by_level, limit)
    g.output('boxes', found.boxes, ir.DataType.FLOAT, ['detections', 4])
    g.output('scores', found.scores, ir.DataType.FLOAT, ['detections'])
    g.output('labels', found.labels, ir.DataType.INT64, ['detections'])
    return ir.to_proto(g.finish())


def _second_stage(
    g: GraphBuilder,
    model: Any,
    maps: list[tuple[ir.Value, ...]],
    features: list[ir.Value],
    examples: tuple[Tensor, ...],
    limit: ir.Value,
) -> Detections:
    extractor, box_head = model.roi_head.bbox_roi_extractor, model.roi_head.bbox_head
    regions = proposals(g, model.rpn_head, maps, limit)
    pooled, place = pooled_regions(g, extractor, features[: extractor.num_inputs], regions)
    size = (EXAMPLE_REGIONS, examples[0].shape[1], *extractor.roi_layers[0].output_size)
    part = trace(RegionStage(model), {'regions': torch.zeros(size)}, ['logits', 'deltas'], {'regions': [0]})
    logits, deltas = (g('Gather', values, place) for values in g.insert(ir.from_proto(part), pooled))
    return two_stage_detections(g, box_head, model.roi_head.test_cfg, regions, logits, deltas, limit)


def _numbered(name: str, values: tuple[Tensor, ...]) -> list[str]:
    return [f'{name}_{i}' for i in range(len(values))]


def last(g: GraphBuilder, feature_map: ir.Value) -> ir.Value:
    """A map [1, C, H, W] as [1, H, W, C]."""
    return g('Transpose', feature_map, perm=[0, 2, 3, 1])


def rows(g: GraphBuilder, feature_map: ir.Value, columns: int) -> ir.Value:
    """A map [1, H, W, A * columns] as [H * W * A, columns]."""
    return g('Reshape', feature_map, [-1, columns])


def probabilities(g: GraphBuilder, logits: ir.Value, sigmoid: bool) -> ir.Value:
    """Class scores [N, classes] of logits: a sigmoid, or a softmax without its last column, the background."""
    if sigmoid:
        return g('Sigmoid', logits)
    return g('Slice', g('Softmax', logits, axis=1), [0], [-1], [1])


def one_stage_detections(
    g: GraphBuilder,
    head: Any,
    maps: list[tuple[ir.Value, ...]],
    limit: ir.Value,
) -> Detections:
    """Predict from the maps of one image as mmdet's ``BaseDenseHead.predict_by_feat``, or that of GFL or YOLOX, does.

    Per level the best ``nms_pre`` pairs of prior and class; of all levels those above ``score_thr``, decoded,
    multiplied by their score factor where the head has one, and suppressed class by class. mmdet asks for
    ``score_thr`` first, which gives the same pairs in the same order.

    Args:
        g: the graph to write into.
        head: a dense head of mmdet; its prior generator, box coder and ``test_cfg`` are used.
        maps: for each level class logits [1, A * C, H, W], boxes [1, A * 4, H, W], or of a GFL head distributions of
            their sides [1, A * 4 * bins, H, W], and, if the head has them, score factors (centre-ness) [1, A, H, W].
        limit: from :func:`rebnn_mm.export.detection.boxes.image_corners`.

    Returns:
        Detections: best first, in pixels of the padded image.
    """
    if not hasattr(head, 'bbox_coder'):
        return yolox_detections(g, head, maps)
    cfg = head.test_cfg
    levels = [_candidates(g, head, level, *(last(g, one) for one in of_level)) for level, of_level in enumerate(maps)]
    scores, positions, prediction, grid, *factors = (
        g('Concat', *values, axis=0) for values in zip(*levels, strict=True)
    )
    boxes = decode(g, head.bbox_coder, grid, prediction, limit)
    wanted = g('Greater', scores, float(cfg.get('score_thr', 0)))
    if cfg.get('min_bbox_size', -1) >= 0:
        wanted = g('And', wanted, large_enough(g, boxes, cfg.min_bbox_size))
    labels = g('Mod', positions, _classes(head))
    found = Detections(boxes, g('Mul', scores, factors[0]) if factors else scores, labels).at(g, g.where(wanted))
    return found.at(g, suppress(g, found.boxes, found.scores, found.labels, cfg.nms, cfg.max_per_img))


def _classes(head: Any) -> int:
    """Classes of a head without the background."""
    return int(head.cls_out_channels) - (0 if head.use_sigmoid_cls else 1)


def _candidates(
    g: GraphBuilder, head: Any, level: int, logits: ir.Value, boxes: ir.Value, factor: ir.Value | None = None
) -> list[ir.Value]:
    """Scores [K], their positions [K], boxes [K, 4], priors [K, 4 or 2], and factors [K] if there are any."""
    # GFL has the anchors' centres and, for each side of a box, a distribution of distances.
    integral = getattr(head, 'integral', None)
    columns = 4 if integral is None else 4 * (integral.reg_max + 1)
    scores = probabilities(g, rows(g, logits, head.cls_out_channels), head.use_sigmoid_cls)
    scores = g('Reshape', scores, [-1])
    best, positions = g.two('TopK', scores, g.all(scores, head.test_cfg.nms_pre))
    places = g('Div', positions, _classes(head))
    sides = g('Gather', rows(g, boxes, columns), places)
    grid = priors(g, logits, head.prior_generator, level, places)
    if integral is not None:
        grid = centres(g, grid)
        sides = g('Mul', expected_sides(g, integral, sides), float(head.prior_generator.strides[level][0]))
    values = [best, positions, sides, grid]
    if factor is not None:
        values.append(g('Gather', g('Sigmoid', g('Reshape', factor, [-1])), places))
    return values


def yolox_detections(g: GraphBuilder, head: Any, maps: list[tuple[ir.Value, ...]]) -> Detections:
    r"""Predict from the maps of one image as mmdet's ``YOLOXHead.predict_by_feat`` does.

    Of every cell its best class, with the score :math:`\sigma(o) \max_c \sigma(s_c)`; cells that reach ``score_thr``
    are decoded and suppressed class by class. A box may leave the image, as in mmdet.

    Args:
        g: the graph to write into.
        head: its strides and ``test_cfg`` are used.
        maps: for each level class logits [1, C, H, W], boxes [1, 4, H, W] and objectness [1, 1, H, W].

    Returns:
        Detections: best first, in pixels of the padded image.
    """
    levels = []
    for level, of_level in enumerate(maps):
        logits, boxes, objectness = (last(g, one) for one in of_level)
        scores = g('Sigmoid', rows(g, logits, head.cls_out_channels))
        best = g('ReduceMax', scores, [1], keepdims=0)
        score = g('Mul', best, g('Sigmoid', g('Reshape', objectness, [-1])))
        places = g('Range', 0, g('Squeeze', g.length(score), [0]), 1)
        grid = priors(g, logits, head.prior_generator, level, places)
        stride = float(head.prior_generator.strides[level][0])
        shift, growth = g.two('Split', rows(g, boxes, 4), axis=1, num_outputs=2)
        centre = g('Add', g('Mul', shift, stride), grid)
        half = g('Div', g('Mul', g('Exp', growth), stride), 2.0)
        corners = g('Concat', g('Sub', centre, half), g('Add', centre, half), axis=1)
        levels.append((corners, score, g('ArgMax', scores, axis=1, keepdims=0)))
    found = Detections(*(g('Concat', *values, axis=0) for values in zip(*levels, strict=True)))
    found = found.at(g, g.where(g('GreaterOrEqual', found.scores, float(head.test_cfg.score_thr))))
    return found.at(g, suppress(g, found.boxes, found.scores, found.labels, head.test_cfg.nms, 0))


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
    for level, of_level in enumerate(maps):
        logits, deltas = (last(g, one) for one in of_level)
        scores = probabilities(g, rows(g, logits, head.cls_out_channels), head.use_sigmoid_cls)
        scores = g('Reshape', scores, [-1])
        best, order = g.two('TopK', scores, g.all(scores, cfg.get('nms_pre', -1)))
        group = g('Expand', level, g('Shape', best))
        grid = priors(g, logits, head.prior_generator, level, order)
        levels.append((best, group, g('Gather', rows(g, deltas, 4), order), grid))
    scores, groups, deltas, grid = (g('Concat', *values, axis=0) for values in zip(*levels, strict=True))
    found = Detections(decode(g, head.bbox_coder, grid, deltas, limit), scores, groups)
    if cfg.get('min_bbox_size', -1) >= 0:
        found = found.at(g, g.where(large_enough(g, found.boxes, cfg.min_bbox_size)))
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
    """Predict from the second stage's output for one image as mmdet's ``BBoxHead.predict_by_feat`` does.

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
    positions = g.where(g('Greater', scores, float(cfg.score_thr)))
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
