"""The border's share of a sum is the difference between two paddings."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from rebnn_mm.export.engines.lce.binary import border_sums


@pytest.mark.parametrize('size', [(1, 1), (2, 7), (9, 4)])
def test_difference_of_paddings(size):
    generator = torch.Generator().manual_seed(0)
    for kernel, stride, dilation, pads in itertools.product((1, 3), (1, 2), (1, 3), ((3, 3, 3, 3), (4, 3, 3, 5))):
        codes = torch.randint(0, 2, (4, 3, kernel, kernel), generator=generator) * 2.0 - 1
        x = torch.randint(0, 2, (1, 3, *size), generator=generator) * 2.0 - 1
        top, left, bottom, right = pads
        zero, one = (
            functional.conv2d(
                functional.pad(x, (left, right, top, bottom), value=value), codes, stride=stride, dilation=dilation
            )
            for value in (0.0, 1.0)
        )
        ours = border_sums(codes.numpy(), size, (stride, stride), pads, (dilation, dilation))
        assert np.array_equal(ours, (one - zero)[0].permute(1, 2, 0).numpy())
