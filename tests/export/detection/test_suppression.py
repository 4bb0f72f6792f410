"""Non-maximum suppression: the boxes that mmcv keeps, in its order."""

import pytest
import torch
from mmcv.ops import batched_nms
from torch import Tensor

from rebnn_mm.export.detection.suppression import large_enough, suppress

from .detectors import computed


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


@pytest.mark.parametrize(('least', 'wanted'), [(0.0, [0, 1, 3]), (2.0, [3]), (4.0, [])])
def test_boxes_that_are_large_enough(least, wanted):
    sides = torch.tensor([[3.0, 2.0], [2.0, 3.0], [0.0, 5.0], [2.5, 2.5]])
    boxes = torch.cat([torch.ones(4, 2), 1 + sides], 1)
    assert computed(lambda g, x: large_enough(g, x, least), 'i1', boxes)[0].tolist() == wanted
