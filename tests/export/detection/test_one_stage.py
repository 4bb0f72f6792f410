"""Detections from the maps of real mmdet heads, with random maps of two sizes."""

from typing import Any

import numpy as np
import pytest
import torch
from mmdet.registry import MODELS
from mmengine.config import ConfigDict
from torch import Tensor

from rebnn_mm.export.detection import agreement
from rebnn_mm.export.detection.boxes import image_corners
from rebnn_mm.export.detection.one_stage import one_stage_detections

from .detectors import DELTAS, DENSE_TEST, ONE_ANCHOR, RETINA_ANCHORS, computed

HEADS = {
    'retina': dict(type='RetinaHead', anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS),
    'softmax': dict(
        type='AnchorHead',
        anchor_generator=RETINA_ANCHORS,
        bbox_coder=DELTAS,
        loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=False),
    ),
    'atss': dict(type='ATSSHead', norm_cfg=None, anchor_generator=ONE_ANCHOR, bbox_coder=DELTAS),
    'fcos': dict(type='FCOSHead', norm_cfg=None, strides=[4, 8, 16]),
    'ssd': dict(
        type='rebnn_mm.FixedSSDHead',
        bbox_coder=DELTAS,
        anchor_generator=dict(
            type='SSDAnchorGenerator',
            scale_major=False,
            strides=[4, 8, 16],
            ratios=[[2], [2, 3], [2]],
            min_sizes=[8, 16, 32],
            max_sizes=[16, 32, 64],
        ),
    ),
}


def build(name: str, **test_cfg: Any) -> Any:
    channels: Any = dict(in_channels=(8, 8, 8)) if name == 'ssd' else dict(in_channels=8, feat_channels=8)
    cfg = ConfigDict({**DENSE_TEST, **test_cfg})
    return MODELS.build(dict(num_classes=3, test_cfg=cfg, **channels, **HEADS[name])).eval()


def random_maps(head: Any, height: int, width: int, seed: int = 0) -> list[Tensor]:
    """Maps of the head's shapes: logits of all levels, then boxes, then centre-ness if the head has it."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [(-(-height // stride), -(-width // stride)) for stride in (4, 8, 16)]
    with torch.no_grad():
        kinds = head(tuple(torch.zeros(1, 8, *size) for size in sizes))
    maps = [[torch.randn(x.shape, generator=generator) for x in kind] for kind in kinds]
    if 'FCOS' in type(head).__name__:
        maps[1] = [x.abs() * 10 for x in maps[1]]
    return [x for kind in maps for x in kind]


def both(head: Any, maps: list[Tensor], size: tuple[int, int]) -> tuple[tuple[np.ndarray, ...], list[np.ndarray]]:
    """mmdet's predictions and the graph's."""
    kinds = [maps[i : i + 3] for i in range(0, len(maps), 3)]
    (wanted,) = head.predict_by_feat(*kinds, batch_img_metas=[dict(img_shape=size)], rescale=False)

    def write(g, size, *values):
        by_level = [tuple(values[level::3]) for level in range(3)]
        return one_stage_detections(g, head, by_level, image_corners(g, size))

    found = computed(write, 'f2 f1 i1', torch.tensor(size), *maps)
    return (wanted.bboxes.numpy(), wanted.scores.numpy(), wanted.labels.numpy()), found


@pytest.mark.parametrize('name', HEADS)
def test_detections_are_those_of_mmdet(name):
    head = build(name)
    for size, padded in (((60, 90), (64, 96)), ((33, 40), (33, 40))):
        wanted, found = both(head, random_maps(head, *padded), size)
        assert len(wanted[0]) > 20
        assert len(set(wanted[2].tolist())) == 3
        assert agreement(wanted, tuple(found)).same
        assert (np.diff(found[1]) <= 0).all()


@pytest.mark.parametrize(
    'options',
    [
        dict(nms_pre=10),
        dict(min_bbox_size=12),
        dict(min_bbox_size=-1),
        dict(nms=None),
        dict(nms=dict(type='nms', iou_threshold=0.4, class_agnostic=True)),
        dict(score_thr=0.95),
        dict(max_per_img=7),
    ],
    ids=str,
)
def test_every_option_of_the_test_config_counts(options):
    head, plain = build('retina', **options), build('retina')
    maps = random_maps(head, 64, 96)
    wanted, found = both(head, maps, (64, 96))
    assert agreement(wanted, tuple(found)).same
    if options != dict(min_bbox_size=-1):
        assert not agreement(both(plain, maps, (64, 96))[0], tuple(found)).same


def test_no_detections():
    head = build('retina', score_thr=0.9999)
    wanted, found = both(head, random_maps(head, 64, 96), (64, 96))
    assert len(wanted[0]) == 0
    assert [x.shape for x in found] == [(0, 4), (0,), (0,)]
