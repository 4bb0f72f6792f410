"""Structure of a detector's prediction, as far as mmdet's own classes define it."""

from collections.abc import Iterator
from typing import Any

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

Methods = dict[type, tuple[str, ...]]

PRIORS: Methods = {
    ClampedSSDAnchorGenerator: ('grid_priors', 'single_level_grid_priors'),
    AnchorGenerator: ('grid_priors', 'single_level_grid_priors'),
    MlvlPointGenerator: ('grid_priors', 'single_level_grid_priors'),
}
CODERS: Methods = {DeltaXYWHBBoxCoder: ('decode',), DistancePointBBoxCoder: ('decode',)}
PREDICTION = ('predict', 'predict_by_feat', '_predict_by_feat_single', '_bbox_post_process')
# The heads that predict in their own way, and have a graph, before those that predict in the common one.
ONE_STAGE: Methods = {
    YOLOXHead: ('predict', 'predict_by_feat', '_bbox_decode', '_bbox_post_process'),
    GFLHead: (*PREDICTION, 'anchor_center'),
    BaseDenseHead: PREDICTION,
}
SUPPRESSION_KEYS = {'type', 'iou_threshold', 'class_agnostic', 'split_thr'}


def reasons(model: Any) -> Iterator[str]:
    """Everything about a model that keeps its prediction from having a graph, one clause each.

    Example:
        >>> from torch import nn
        >>> list(reasons(nn.Identity()))
        ['it is no detector of mmdet']
    """
    if isinstance(model, SingleStageDetector):
        yield from _own(model, SingleStageDetector, 'predict', 'extract_feat')
        yield from _dense_head(model.bbox_head, ONE_STAGE)
    elif isinstance(model, TwoStageDetector) and model.with_rpn and model.with_roi_head:
        yield from _own(model, TwoStageDetector, 'predict', 'extract_feat')
        yield from _dense_head(model.rpn_head, {RPNHead: PREDICTION})
        yield from _second_stage(model.roi_head)
    else:
        detector = isinstance(model, BaseDetector)
        yield 'it is neither one-stage nor two-stage' if detector else 'it is no detector of mmdet'


def _own(thing: Any, base: type, *methods: str) -> Iterator[str]:
    """A reason for each of the methods that the class of ``thing`` does not have from ``base``."""
    name = type(thing).__name__
    if not isinstance(thing, base):
        yield f'its {name} is no {base.__name__}'
        return
    for method in methods:
        if getattr(type(thing), method) is not getattr(base, method):
            yield f'its {name} has a {method} of its own'


def _one_of(thing: Any, bases: Methods) -> Iterator[str]:
    base = next((cls for cls in bases if isinstance(thing, cls)), None)
    if base is None:
        yield f'its {type(thing).__name__} is neither {" nor ".join(cls.__name__ for cls in bases)}'
    else:
        yield from _own(thing, base, *bases[base])


def _dense_head(head: Any, bases: Methods) -> Iterator[str]:
    base = next((cls for cls in bases if isinstance(head, cls)), list(bases)[-1])
    yield from _own(head, base, *bases[base])
    name = type(head).__name__
    yield from _one_of(getattr(head, 'prior_generator', None), PRIORS)
    cfg = head.test_cfg
    if base is not YOLOXHead:
        coder = getattr(head, 'bbox_coder', None)
        yield from _one_of(coder, {DistancePointBBoxCoder: ('decode',)} if base is GFLHead else CODERS)
        yield from _coder(coder)
        if base is not RPNHead and cfg.get('nms_pre', -1) <= 0:
            yield f'its {name} has no nms_pre in test_cfg'
        if cfg.get('max_per_img', -1) <= 0:
            yield f'its {name} has no max_per_img in test_cfg'
    if base is GFLHead:
        yield from _own(head.integral, Integral, 'forward')
    if getattr(getattr(head, 'loss_cls', None), 'custom_cls_channels', False):
        yield f'its {name} has a loss with class channels of its own'
    yield from _suppression(name, cfg)


def _second_stage(head: Any) -> Iterator[str]:
    yield from _own(head, StandardRoIHead, 'predict_bbox', '_bbox_forward')
    if type(head).predict is not BaseRoIHead.predict:
        yield f'its {type(head).__name__} has a predict of its own'
    if head.with_mask:
        yield 'it predicts masks'
    extractor, box_head = head.bbox_roi_extractor, head.bbox_head
    yield from _own(extractor, SingleRoIExtractor, 'forward', 'map_roi_levels')
    layer = extractor.roi_layers[0]
    if not isinstance(layer, RoIAlign) or layer.pool_mode != 'avg':
        yield f'its regions are pooled by {type(layer).__name__}, not by the average of RoIAlign'
    name = type(box_head).__name__
    yield from _own(box_head, BBoxHead, 'predict_by_feat', '_predict_by_feat_single')
    yield from _one_of(box_head.bbox_coder, {DeltaXYWHBBoxCoder: ('decode',)})
    yield from _coder(box_head.bbox_coder)
    if not (box_head.with_cls and box_head.with_reg):
        yield f'its {name} does not give both classes and boxes'
    if box_head.custom_cls_channels:
        yield f'its {name} has a loss with class channels of its own'
    yield from _suppression(name, head.test_cfg)


def _coder(coder: Any) -> Iterator[str]:
    if getattr(coder, 'add_ctr_clamp', False):
        yield f'its {type(coder).__name__} has add_ctr_clamp'


def _suppression(name: str, cfg: Any) -> Iterator[str]:
    nms = cfg.get('nms')
    if nms is None:
        return
    kind, extra = nms.get('type', 'nms'), sorted(set(nms) - SUPPRESSION_KEYS)
    if kind != 'nms':
        yield f'its {name} suppresses with {kind}, not with nms'
    elif extra:
        yield f'its {name} suppresses with the option {extra[0]}'
    elif 'iou_threshold' not in nms:
        yield f'its {name} suppresses without an iou_threshold'
