import pytest
import torch
from mmdet.registry import TASK_UTILS
from mmengine.registry import TASK_UTILS as ROOT_TASK_UTILS

from rebnn_mm.models.detection import ClampedSSDAnchorGenerator

STRIDES = (8, 16, 32, 64, 100, 300)
SIZES = [(n, n) for n in (38, 19, 10, 5, 3, 1)]
SSD = dict(
    scale_major=False,
    input_size=300,
    basesize_ratio_range=(0.2, 0.9),
    strides=list(STRIDES),
    ratios=[[2], [2, 3], [2, 3], [2, 3], [2], [2]],
)


@pytest.fixture(scope='module')
def both():
    """mmdet's anchors of SSD300 on VOC, and ours, level by level."""
    kinds = ('SSDAnchorGenerator', 'ClampedSSDAnchorGenerator')
    return [TASK_UTILS.build(dict(type=kind, **SSD)).grid_priors(SIZES, device='cpu') for kind in kinds]


def centres_and_sizes(anchors):
    start, end = anchors.chunk(2, dim=1)
    return torch.cat([(start + end) / 2, end - start], dim=1)


def test_are_mmdets_but_for_centres_and_sides_beyond_the_image(both):
    for stock, clamped in zip(*both, strict=True):
        wanted = centres_and_sizes(stock).clamp(max=300)
        torch.testing.assert_close(centres_and_sizes(clamped), wanted, atol=1e-4, rtol=0)


def test_which_those_are(both):
    """The last row and column at stride 32, and the long sides of two maps: 19 of 100 places, 2 of 4 anchors."""
    changed = [((stock - clamped).abs().amax(1) > 1e-3).sum().item() for stock, clamped in zip(*both, strict=True)]
    assert changed == [0, 0, 19 * 6, 0, 9 * 2, 2]
    assert (both[0][2] - both[1][2]).max().item() == pytest.approx(4)


def test_name_is_found_with_and_without_the_scope():
    assert ROOT_TASK_UTILS.get('rebnn_mm.ClampedSSDAnchorGenerator') is ClampedSSDAnchorGenerator
    assert TASK_UTILS.get('ClampedSSDAnchorGenerator') is ClampedSSDAnchorGenerator
