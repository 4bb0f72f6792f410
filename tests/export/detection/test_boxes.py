"""Decoding: what mmdet's coders give."""

import pytest
import torch
from mmdet.models.task_modules import DeltaXYWHBBoxCoder, DistancePointBBoxCoder
from torch import Tensor

from rebnn_mm.export.detection.boxes import decode, image_corners

from .detectors import computed

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
