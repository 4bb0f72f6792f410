"""Which predictions are taken for mmdet's own, and what the others are told."""

from typing import Any

import pytest
from mmdet.models.dense_heads import GFLHead, RetinaHead, RPNHead, YOLOXHead
from mmdet.models.task_modules import DeltaXYWHBBoxCoder
from mmdet.registry import MODELS
from mmengine.config import Config, ConfigDict
from torch import nn

from rebnn_mm.export.detection import explain_unsupported

from .detectors import CONFIGS, DELTAS, ONE_ANCHOR, RETINA_ANCHORS, narrow_c4, narrow_fpn, narrow_ssd, one_stage


def retina(**test_cfg: Any) -> Any:
    return one_stage(dict(type='RetinaHead', anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS), **test_cfg)


def c4(change: Any = lambda model: None) -> Any:
    cfg = Config.fromfile(CONFIGS / 'coco/faster_rcnn_r18_rebnn_coco.py').model
    narrow_c4(cfg)
    change(cfg)
    return MODELS.build(cfg)


@pytest.mark.parametrize(
    ('config', 'narrow'),
    [
        ('coco/faster_rcnn_r18_rebnn_coco', narrow_c4),
        ('coco/faster_rcnn_r18_bidet_coco', narrow_c4),
        ('coco/faster_rcnn_r18_fpn_rebnn_coco', narrow_fpn),
        ('coco/ssd300_vgg16_rebnn_coco', narrow_ssd),
        ('coco/ssd300_vgg16_bidet_coco', narrow_ssd),
        ('bccd/faster_rcnn_r18_rebnn_bccd', narrow_c4),
        ('demo/faster_rcnn_r18_rebnn_coco_sample', narrow_c4),
    ],
)
def test_every_kind_of_detector_of_the_configs_is_supported(config, narrow):
    cfg = Config.fromfile(CONFIGS / f'{config}.py').model
    narrow(cfg)
    assert explain_unsupported(MODELS.build(cfg)) == ''


class OwnThreshold(RetinaHead):
    """Predicts in its own way."""

    def _predict_by_feat_single(self, *args, **kwargs):
        return super()._predict_by_feat_single(*args, **kwargs)


class OwnBoxes(YOLOXHead):
    def _bbox_decode(self, *args):
        return super()._bbox_decode(*args)


class OwnCentres(GFLHead):
    def anchor_center(self, *args):
        return super().anchor_center(*args)


def with_head(cls: type, **options: Any) -> Any:
    model = retina()
    model.bbox_head = cls(num_classes=3, in_channels=8, test_cfg=model.bbox_head.test_cfg, **options)
    return model


def with_head_class(cls: type) -> Any:
    model = retina()
    model.bbox_head.__class__ = cls
    return model


def with_test_cfg(**options: Any) -> Any:
    model = retina()
    model.bbox_head.test_cfg = ConfigDict({**model.bbox_head.test_cfg, **options})
    return model


def without(path: str, model: Any = None) -> Any:
    model = part = model or retina()
    *parts, last = path.split('.')
    for name in parts:
        part = getattr(part, name)
    part.pop(last) if isinstance(part, ConfigDict) else setattr(part, last, None)
    return model


def with_mask_head() -> Any:
    model = c4()
    model.roi_head.mask_head = nn.Identity()
    return model


@pytest.mark.parametrize(
    ('build', 'reason'),
    [
        (lambda: nn.Conv2d(3, 8, 1), 'it is not a detector of mmdet'),
        (lambda: with_head_class(OwnThreshold), 'its OwnThreshold has a _predict_by_feat_single of its own'),
        (lambda: with_head(YOLOXHead, strides=[4, 8, 16]), ''),
        (lambda: with_head(OwnBoxes, strides=[4, 8, 16]), 'its OwnBoxes has a _bbox_decode of its own'),
        (lambda: with_head(GFLHead, anchor_generator=ONE_ANCHOR), ''),
        (lambda: with_head(OwnCentres, anchor_generator=ONE_ANCHOR), 'its OwnCentres has a anchor_center of its own'),
        (lambda: with_head_class(RPNHead), 'its RPNHead has a _predict_by_feat_single of its own'),
        (
            lambda: with_test_cfg(nms=dict(type='soft_nms', iou_threshold=0.5)),
            'suppresses with soft_nms, not with nms',
        ),
        (lambda: with_test_cfg(nms=dict(type='nms', iou_thr=0.5)), 'suppresses with the option iou_thr'),
        (lambda: with_test_cfg(nms=dict(type='nms')), 'suppresses without an iou_threshold'),
        (lambda: with_test_cfg(nms_pre=-1), 'its RetinaHead has no nms_pre in test_cfg'),
        (lambda: with_test_cfg(max_per_img=0), 'its RetinaHead has no max_per_img in test_cfg'),
        (with_mask_head, 'it predicts masks'),
        (lambda: without('bbox_head.test_cfg'), 'its RetinaHead has no nms_pre in test_cfg'),
        (lambda: without('bbox_head.test_cfg.nms'), 'its RetinaHead suppresses without an iou_threshold'),
        (lambda: without('roi_head.test_cfg', c4()), 'its BBoxHead suppresses without an iou_threshold'),
        (
            lambda: c4(lambda cfg: cfg.roi_head.bbox_roi_extractor.roi_layer.update(pool_mode='max')),
            'its regions are pooled by RoIAlign, not by the average of RoIAlign',
        ),
    ],
)
def test_what_is_not_supported_is_named(build, reason):
    found = explain_unsupported(build())
    assert reason in found and bool(reason) == bool(found)


def test_a_coder_of_another_kind_is_named():
    model = retina()
    model.bbox_head.bbox_coder = DeltaXYWHBBoxCoder(add_ctr_clamp=True)
    assert explain_unsupported(model) == 'its DeltaXYWHBBoxCoder has add_ctr_clamp'
    model.bbox_head.bbox_coder = nn.Identity()
    assert explain_unsupported(model) == 'its Identity is neither DeltaXYWHBBoxCoder nor DistancePointBBoxCoder'
