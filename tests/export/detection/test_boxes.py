"""Priors, decoding and suppression: what mmdet and mmcv give."""

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from mmcv.ops import batched_nms
from mmdet.models.task_modules import DeltaXYWHBBoxCoder, DistancePointBBoxCoder
from mmdet.registry import TASK_UTILS
from torch import Tensor

from rebnn_mm.export.detection.boxes import image_corners, large_enough, suppress
from rebnn_mm.export.detection.graph import GraphBuilder
from rebnn_mm.export.detection.heads import decode, priors
from rebnn_mm.models.detection import ClampedSSDAnchorGenerator

from .detectors import ONE_ANCHOR, RETINA_ANCHORS, computed

EXPONENTIAL = 1e-6
"""Relative tolerance: two libraries' exponentials may differ in the last bit."""


def decoded(coder, priors: Tensor, prediction: Tensor, size: tuple[int, int]) -> Tensor:
    def write(g, priors, prediction, size):
        return decode(g, coder, priors, prediction, image_corners(g, size))

    return torch.from_numpy(computed(write, 'f2', priors, prediction, torch.tensor(size))[0])


def anchors(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(count, 2, generator=generator) * 200 - 50
    return torch.cat([start, start + torch.rand(count, 2, generator=generator) * 100], 1)


@pytest.mark.parametrize(
    'coder',
    [
        DeltaXYWHBBoxCoder(),
        DeltaXYWHBBoxCoder(target_means=(0.1, -0.2, 0.3, 0.0), target_stds=(0.1, 0.1, 0.2, 0.2)),
        DeltaXYWHBBoxCoder(clip_border=False),
    ],
    ids=['plain', 'normalised', 'not clipped'],
)
def test_deltas(coder):
    priors = anchors(300)
    # Growth beyond the clip at exp(4.13), in both directions, is among these.
    deltas = torch.randn(300, 4, generator=torch.Generator().manual_seed(1)) * 4 / torch.tensor(coder.stds)
    found = decoded(coder, priors, deltas, (120, 160))
    wanted = coder.decode(priors, deltas, max_shape=(120, 160))
    assert ((deltas * torch.tensor(coder.stds)).abs() > 4.2).any()
    torch.testing.assert_close(found, wanted, rtol=EXPONENTIAL, atol=1e-4)
    if coder.clip_border:
        assert found[:, 0::2].max() == 160
        assert found[:, 1::2].max() == 120


@pytest.mark.parametrize('clip', [True, False])
def test_distances_are_exact(clip):
    generator = torch.Generator().manual_seed(0)
    points, sides = torch.rand(100, 2, generator=generator) * 150, torch.rand(100, 4, generator=generator) * 80
    coder = DistancePointBBoxCoder(clip_border=clip)
    found = decoded(coder, points, sides, (120, 160))
    assert torch.equal(found, coder.decode(points, sides.clone(), max_shape=(120, 160)))


def test_no_boxes():
    assert decoded(DeltaXYWHBBoxCoder(), torch.zeros(0, 4), torch.zeros(0, 4), (10, 10)).shape == (0, 4)


SSD = dict(
    type='SSDAnchorGenerator',
    scale_major=False,
    input_size=300,
    basesize_ratio_range=(0.15, 0.9),
    strides=[8, 16, 32, 64, 100, 300],
    ratios=[[2], [2, 3], [2, 3], [2, 3], [2], [2]],
)
GENERATORS = {
    'retina': RETINA_ANCHORS,
    'atss': ONE_ANCHOR,
    'ssd': SSD,
    'clamped': {**SSD, 'type': ClampedSSDAnchorGenerator, 'input_size': 300},
    'not square': dict(type='AnchorGenerator', scales=[2, 3], ratios=[0.3, 1.7], strides=[(12, 7)], center_offset=0.5),
    'points': dict(type='MlvlPointGenerator', strides=[8, (16, 24)], offset=0.5),
    'corners': dict(type='MlvlPointGenerator', strides=[8], offset=0),
}


def _written(generator: Any, level: int, g: GraphBuilder, feature_map: ir.Value, places: ir.Value) -> ir.Value:
    return priors(g, feature_map, generator, level, places)


@pytest.mark.parametrize('name', GENERATORS)
def test_priors_are_those_of_mmdet(name):
    generator = TASK_UTILS.build(GENERATORS[name])
    columns = 2 if 'Point' in type(generator).__name__ else 4
    for level in range(len(generator.strides)):
        for size in ((5, 3), (1, 1), (2, 17)):
            wanted = generator.single_level_grid_priors(size, level, device='cpu').numpy()
            places = torch.randperm(len(wanted))
            (found,) = computed(partial(_written, generator, level), 'f2', torch.zeros(1, *size, 7), places)
            assert wanted.shape[1] == columns
            np.testing.assert_array_equal(found, wanted[places.numpy()])


def crowd(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Overlapping boxes of three classes in an image of 1000 pixels."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.rand(count, 2, generator=generator) * 600
    boxes = torch.cat([start, start + 200 + torch.rand(count, 2, generator=generator) * 300], 1).clamp(max=1000)
    return boxes, torch.rand(count, generator=generator), torch.randint(0, 3, (count,), generator=generator)


def kept(boxes: Tensor, scores: Tensor, groups: Tensor, nms, at_most: int) -> list[int]:
    return computed(lambda g, *x: suppress(g, *x, nms, at_most), 'i1', boxes, scores, groups)[0].tolist()


@pytest.mark.parametrize('threshold', [0.3, 0.7])
@pytest.mark.parametrize('agnostic', [False, True])
@pytest.mark.parametrize('at_most', [0, 10])
def test_keeps_what_mmcv_keeps(threshold, agnostic, at_most):
    boxes, scores, groups = crowd(500)
    nms = dict(type='nms', iou_threshold=threshold, class_agnostic=agnostic)
    wanted = batched_nms(boxes, scores, groups, dict(nms))[1].tolist()
    assert 10 < len(wanted) < 450
    assert kept(boxes, scores, groups, nms, at_most) == (wanted[:at_most] if at_most else wanted)


def test_boxes_on_the_threshold_fall_where_mmcv_lets_them_fall():
    """Shifted by a label's offset, corners are rounded to the coarser grid of larger numbers."""
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(400, 2, generator=generator) * 900
    boxes = torch.cat([start, start + 60], 1)
    # An overlap of exactly one half, but for rounding.
    boxes = torch.cat([boxes, boxes + torch.tensor([20.0, 0.0, 20.0, 0.0])])
    scores = torch.rand(800, generator=generator)
    groups = torch.arange(400).repeat(2)
    nms = dict(type='nms', iou_threshold=0.5)
    wanted = batched_nms(boxes, scores, groups, dict(nms))[1].tolist()
    apart = batched_nms(boxes, scores, groups * 0, dict(nms))[1].tolist()
    assert len(wanted) > len(apart) > 100
    assert kept(boxes, scores, groups, nms, 0) == wanted


def test_more_candidates_than_mmcv_treats_at_once():
    boxes, scores, groups = crowd(300, seed=1)
    nms = dict(type='nms', iou_threshold=0.5, split_thr=100)
    assert kept(boxes, scores, groups, nms, 0) == batched_nms(boxes, scores, groups, dict(nms))[1].tolist()


def test_without_suppression_all_are_sorted():
    boxes, scores, groups = crowd(50)
    assert kept(boxes, scores, groups, None, 20) == scores.sort(descending=True)[1][:20].tolist()


@pytest.mark.parametrize('nms', [None, dict(type='nms', iou_threshold=0.5)])
def test_no_candidates(nms):
    assert kept(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long), nms, 10) == []


@pytest.mark.parametrize(('least', 'wanted'), [(0.0, [1, 1, 0, 1]), (2.0, [0, 0, 0, 1]), (4.0, [0, 0, 0, 0])])
def test_boxes_that_are_large_enough(least, wanted):
    sides = torch.tensor([[3.0, 2.0], [2.0, 3.0], [0.0, 5.0], [2.5, 2.5]])
    boxes = torch.cat([torch.ones(4, 2), 1 + sides], 1)
    assert (
        computed(lambda g, x: g('Cast', large_enough(g, x, least), to=ir.DataType.INT64), 'i1', boxes)[0].tolist()
        == wanted
    )
