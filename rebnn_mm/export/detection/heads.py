"""The parts of detectors of mmdet that have a graph: their classes, what these must leave as it is, and writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import onnx_ir as ir
from mmcv.ops import RoIAlign
from mmdet.models.dense_heads import GFLHead, RPNHead, YOLOXHead
from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
from mmdet.models.dense_heads.gfl_head import Integral
from mmdet.models.detectors import BaseDetector, SingleStageDetector, TwoStageDetector
from mmdet.models.roi_heads import BaseRoIHead, StandardRoIHead
from mmdet.models.roi_heads.bbox_heads import BBoxHead
from mmdet.models.roi_heads.roi_extractors import SingleRoIExtractor
from mmdet.models.task_modules import AnchorGenerator, DeltaXYWHBBoxCoder, DistancePointBBoxCoder, MlvlPointGenerator

from rebnn_mm.models.detection.anchors import ClampedSSDAnchorGenerator

from .boxes import (
    anchors,
    centres,
    clamp_anchors,
    compute_expected_sides,
    from_deltas,
    from_sides,
    large_enough,
    points,
    suppress,
)
from .graph import GraphBuilder


class Detections(NamedTuple):
    """Values of a graph that describe the objects of one image."""

    boxes: ir.Value
    """Corners, float [K, 4]."""
    scores: ir.Value
    """Float [K]."""
    labels: ir.Value
    """Int64 [K]."""

    def at(self, g: GraphBuilder, positions: ir.Value) -> Detections:
        """Select the entries at the given positions, in their order."""
        return Detections(*(g('Gather', values, positions) for values in self))


class Declared(NamedTuple):
    """A class of mmdet that has a graph."""

    base: type  # the class; what inherits from it has the same graph as long as it leaves ``original`` as it is
    original: tuple[str, ...]  # methods that must be those of the class
    write: Callable[..., Any]  # writes into a graph what the methods compute
    parts: Mapping[str, tuple[Declared, ...]] = {}  # of a head, attributes that are read, and what they may be
    limits: tuple[str, ...] = ()  # of a head, entries of ``test_cfg`` that must be above zero
    off: tuple[str, ...] = ()  # options that must be off


def _find_declared(thing: Any, table: tuple[Declared, ...]) -> Declared:
    """Find the first entry of a table that a thing is an instance of; the last one if there is none."""
    return next((entry for entry in table if isinstance(thing, entry.base)), table[-1])


def priors(g: GraphBuilder, feature_map: ir.Value, generator: Any, level: int, places: ir.Value) -> ir.Value:
    """Some priors of mmdet's ``generator.single_level_grid_priors`` for a map [1, H, W, C] whose size alone is used.

    For ``places``, int64 [K], they are anchors, [K, 4] as corners, or points, [K, 2].
    """
    found: ir.Value = _find_declared(generator, PRIORS).write(g, feature_map, generator, level, places)
    return found


def decode(g: GraphBuilder, coder: Any, priors: ir.Value, prediction: ir.Value, limit: ir.Value) -> ir.Value:
    """Corners of boxes [N, 4], as mmdet's ``coder.decode`` computes them from priors (for distances, points)."""
    corners: ir.Value = _find_declared(coder, CODERS).write(g, coder, priors, prediction)
    return g('Min', g('Max', corners, 0.0), limit) if coder.clip_border else corners


def _last(g: GraphBuilder, feature_map: ir.Value) -> ir.Value:
    """A map [1, C, H, W] as [1, H, W, C]."""
    return g('Transpose', feature_map, perm=[0, 2, 3, 1])


def _rows(g: GraphBuilder, feature_map: ir.Value, columns: int) -> ir.Value:
    """A map [1, H, W, A * columns] as [H * W * A, columns]."""
    return g('Reshape', feature_map, [-1, columns])


def _probabilities(g: GraphBuilder, logits: ir.Value, sigmoid: bool) -> ir.Value:
    """Class scores [N, classes] of logits: a sigmoid, or a softmax without its last column, the background."""
    if sigmoid:
        return g('Sigmoid', logits)
    return g('Slice', g('Softmax', logits, axis=1), [0], [-1], [1])


def one_stage_detections(g: GraphBuilder, head: Any, maps: list[tuple[ir.Value, ...]], limit: ir.Value) -> Detections:
    """Predict from the maps of one image as ``predict_by_feat`` of a head of :data:`ONE_STAGE` does; best first.

    Maps are, for each level, class logits [1, A * C, H, W], boxes [1, A * 4, H, W] (of GFL distributions of their
    sides, [1, A * 4 * bins, H, W]) and, if the head has them, centre-ness or objectness [1, A, H, W].
    """
    found: Detections = _find_declared(head, ONE_STAGE).write(g, head, maps, limit)
    return found


def _dense_detections(g: GraphBuilder, head: Any, maps: list[tuple[ir.Value, ...]], limit: ir.Value) -> Detections:
    """Predict as ``BaseDenseHead`` does: per level the best ``nms_pre`` pairs of prior and class.

    Of all levels those above ``score_thr`` are decoded, multiplied by their score factor where the head has one, and
    suppressed class by class. mmdet asks for ``score_thr`` first, which gives the same pairs in the same order. GFL
    has its anchors' centres and, for each side of a box, a distribution of distances.
    """
    cfg = head.test_cfg
    levels = [_candidates(g, head, level, *(_last(g, one) for one in of_level)) for level, of_level in enumerate(maps)]
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
    integral = head.integral if 'integral' in _find_declared(head, ONE_STAGE).parts else None
    columns = 4 if integral is None else 4 * (integral.reg_max + 1)
    scores = _probabilities(g, _rows(g, logits, head.cls_out_channels), head.use_sigmoid_cls)
    scores = g('Reshape', scores, [-1])
    best, positions = g.two('TopK', scores, g.all(scores, head.test_cfg.nms_pre))
    places = g('Div', positions, _classes(head))
    sides = g('Gather', _rows(g, boxes, columns), places)
    grid = priors(g, logits, head.prior_generator, level, places)
    if integral is not None:
        grid = centres(g, grid)
        sides = g('Mul', compute_expected_sides(g, integral, sides), float(head.prior_generator.strides[level][0]))
    values = [best, positions, sides, grid]
    if factor is not None:
        values.append(g('Gather', g('Sigmoid', g('Reshape', factor, [-1])), places))
    return values


def _yolox_detections(g: GraphBuilder, head: Any, maps: list[tuple[ir.Value, ...]], limit: ir.Value) -> Detections:
    r"""Predict from the maps of one image as mmdet's ``YOLOXHead.predict_by_feat`` does.

    Of every cell its best class, with the score :math:`\sigma(o) \max_c \sigma(s_c)`; cells that reach ``score_thr``
    are decoded and suppressed class by class. A box may leave the image, as in mmdet.
    """
    levels = []
    for level, of_level in enumerate(maps):
        logits, boxes, objectness = (_last(g, one) for one in of_level)
        scores = g('Sigmoid', _rows(g, logits, head.cls_out_channels))
        best = g('ReduceMax', scores, [1], keepdims=0)
        score = g('Mul', best, g('Sigmoid', g('Reshape', objectness, [-1])))
        places = g('Range', 0, g('Squeeze', g.length(score), [0]), 1)
        grid = priors(g, logits, head.prior_generator, level, places)
        stride = float(head.prior_generator.strides[level][0])
        shift, growth = g.two('Split', _rows(g, boxes, 4), axis=1, num_outputs=2)
        centre = g('Add', g('Mul', shift, stride), grid)
        half = g('Div', g('Mul', g('Exp', growth), stride), 2.0)
        corners = g('Concat', g('Sub', centre, half), g('Add', centre, half), axis=1)
        levels.append((corners, score, g('ArgMax', scores, axis=1, keepdims=0)))
    found = Detections(*(g('Concat', *values, axis=0) for values in zip(*levels, strict=True)))
    found = found.at(g, g.where(g('GreaterOrEqual', found.scores, float(head.test_cfg.score_thr))))
    return found.at(g, suppress(g, found.boxes, found.scores, found.labels, head.test_cfg.nms, 0))


def proposals(g: GraphBuilder, head: Any, maps: list[tuple[ir.Value, ...]], limit: ir.Value) -> ir.Value:
    """The proposals of mmdet's ``RPNHead`` for one image: corners, float [R, 4], best first."""
    cfg = head.test_cfg
    levels = []
    for level, of_level in enumerate(maps):
        logits, deltas = (_last(g, one) for one in of_level)
        scores = _probabilities(g, _rows(g, logits, head.cls_out_channels), head.use_sigmoid_cls)
        scores = g('Reshape', scores, [-1])
        best, order = g.two('TopK', scores, g.all(scores, cfg.get('nms_pre', -1)))
        group = g('Expand', level, g('Shape', best))
        grid = priors(g, logits, head.prior_generator, level, order)
        levels.append((best, group, g('Gather', _rows(g, deltas, 4), order), grid))
    scores, groups, deltas, grid = (g('Concat', *values, axis=0) for values in zip(*levels, strict=True))
    found = Detections(decode(g, head.bbox_coder, grid, deltas, limit), scores, groups)
    if cfg.get('min_bbox_size', -1) >= 0:
        found = found.at(g, g.where(large_enough(g, found.boxes, cfg.min_bbox_size)))
    keep = suppress(g, found.boxes, found.scores, found.labels, cfg.nms, cfg.max_per_img)
    return g('Gather', found.boxes, keep)


def pool_regions(
    g: GraphBuilder, extractor: Any, features: list[ir.Value], regions: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Pool the features of regions [R, 4], as mmdet's ``SingleRoIExtractor`` does, into [R, C, h, w], sorted by level.

    With them comes where each region is. What is computed per region is put in order afterwards, which moves less
    memory.
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
    """Predict from the second stage's output for one image as mmdet's ``BBoxHead.predict_by_feat`` does."""
    classes = head.num_classes
    scores = g('Reshape', _probabilities(g, logits, sigmoid=False), [-1])
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


PRIORS = tuple(
    Declared(base, ('grid_priors', 'single_level_grid_priors'), write)
    for base, write in (
        (ClampedSSDAnchorGenerator, clamp_anchors),
        (AnchorGenerator, anchors),
        (MlvlPointGenerator, points),
    )
)
DELTAS = Declared(DeltaXYWHBBoxCoder, ('decode',), from_deltas, off=('add_ctr_clamp',))
DISTANCES = Declared(DistancePointBBoxCoder, ('decode',), from_sides)
CODERS = (DELTAS, DISTANCES)
INTEGRAL = Declared(Integral, ('forward',), compute_expected_sides)
PREDICTION = ('predict', 'predict_by_feat', '_predict_by_feat_single', '_bbox_post_process')
LIMITS = ('nms_pre', 'max_per_img')
GRID = {'prior_generator': PRIORS}
BOXES = {**GRID, 'bbox_coder': CODERS}
SIDES = {**GRID, 'bbox_coder': (DISTANCES,), 'integral': (INTEGRAL,)}
YOLOX_PREDICTION = ('predict', 'predict_by_feat', '_bbox_decode', '_bbox_post_process')
ONE_STAGE = (
    Declared(YOLOXHead, YOLOX_PREDICTION, _yolox_detections, GRID),
    Declared(GFLHead, (*PREDICTION, 'anchor_center'), _dense_detections, SIDES, LIMITS),
    Declared(BaseDenseHead, PREDICTION, _dense_detections, BOXES, LIMITS),
)
"""Dense heads; those that predict in a way of their own, before those that predict in the common one."""

PROPOSALS = (Declared(RPNHead, PREDICTION, proposals, BOXES, LIMITS[1:]),)
SUPPRESSION_KEYS = {'type', 'iou_threshold', 'class_agnostic', 'split_thr'}


def reasons(model: Any) -> Iterator[str]:
    """Everything about a model that keeps its prediction from having a graph, one clause each."""
    if isinstance(model, SingleStageDetector):
        yield from _name_own_methods(model, SingleStageDetector, 'predict', 'extract_feat')
        yield from _dense_head(model.bbox_head, ONE_STAGE)
    elif isinstance(model, TwoStageDetector) and model.with_rpn and model.with_roi_head:
        yield from _name_own_methods(model, TwoStageDetector, 'predict', 'extract_feat')
        yield from _dense_head(model.rpn_head, PROPOSALS)
        yield from _second_stage(model.roi_head)
    else:
        detector = isinstance(model, BaseDetector)
        yield 'it is neither one-stage nor two-stage' if detector else 'it is not a detector of mmdet'


def _name_own_methods(thing: Any, base: type, *methods: str) -> Iterator[str]:
    """Give a reason for each of the methods that the class of ``thing`` does not have from ``base``."""
    name = type(thing).__name__
    if not isinstance(thing, base):
        yield f'its {name} is no {base.__name__}'
        return
    for method in methods:
        if getattr(type(thing), method) is not getattr(base, method):
            yield f'its {name} has a {method} of its own'


def _one_of(thing: Any, table: tuple[Declared, ...]) -> Iterator[str]:
    entry, name = _find_declared(thing, table), type(thing).__name__
    if not isinstance(thing, entry.base):
        yield f'its {name} is neither {" nor ".join(other.base.__name__ for other in table)}'
        return
    yield from _name_own_methods(thing, entry.base, *entry.original)
    for option in entry.off:
        if getattr(thing, option):
            yield f'its {name} has {option}'


def _dense_head(head: Any, table: tuple[Declared, ...]) -> Iterator[str]:
    entry = _find_declared(head, table)
    yield from _name_own_methods(head, entry.base, *entry.original)
    name, cfg = type(head).__name__, head.test_cfg or {}
    for part, kinds in entry.parts.items():
        yield from _one_of(getattr(head, part, None), kinds)
    for limit in entry.limits:
        if cfg.get(limit, -1) <= 0:
            yield f'its {name} has no {limit} in test_cfg'
    if getattr(getattr(head, 'loss_cls', None), 'custom_cls_channels', False):
        yield f'its {name} has a loss with class channels of its own'
    yield from _suppression(name, cfg)


def _second_stage(head: Any) -> Iterator[str]:
    yield from _name_own_methods(head, StandardRoIHead, 'predict_bbox', '_bbox_forward')
    if type(head).predict is not BaseRoIHead.predict:
        yield f'its {type(head).__name__} has a predict of its own'
    if head.with_mask:
        yield 'it predicts masks'
    extractor, box_head = head.bbox_roi_extractor, head.bbox_head
    yield from _name_own_methods(extractor, SingleRoIExtractor, 'forward', 'map_roi_levels')
    layer = extractor.roi_layers[0]
    if not isinstance(layer, RoIAlign) or layer.pool_mode != 'avg':
        yield f'its regions are pooled by {type(layer).__name__}, not by the average of RoIAlign'
    name = type(box_head).__name__
    yield from _name_own_methods(box_head, BBoxHead, 'predict_by_feat', '_predict_by_feat_single')
    yield from _one_of(box_head.bbox_coder, (DELTAS,))
    if not (box_head.with_cls and box_head.with_reg):
        yield f'its {name} does not give both classes and boxes'
    if box_head.custom_cls_channels:
        yield f'its {name} has a loss with class channels of its own'
    yield from _suppression(name, head.test_cfg)


def _suppression(name: str, cfg: Any) -> Iterator[str]:
    nms = (cfg or {}).get('nms', {})
    if nms is None:
        return
    kind, extra = nms.get('type', 'nms'), sorted(set(nms) - SUPPRESSION_KEYS)
    if kind != 'nms':
        yield f'its {name} suppresses with {kind}, not with nms'
    elif extra:
        yield f'its {name} suppresses with the option {extra[0]}'
    elif 'iou_threshold' not in nms:
        yield f'its {name} suppresses without an iou_threshold'
