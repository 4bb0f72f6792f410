import pytest
import torch
from torch import nn

from rebnn_mm.models.blocks.shortcut import build_shortcut


def test_where_nothing_changes_there_is_nothing():
    assert [type(part) for part in build_shortcut(4, 4, 1, dict(type='BN'))] == [nn.Identity, nn.Identity]


@pytest.mark.parametrize(('channels', 'stride', 'pools'), [(8, 1, False), (4, 2, True), (8, 3, True)])
def test_pooling_only_where_the_resolution_changes_and_a_real_1x1_convolution(channels, stride, pools):
    pool, projection = build_shortcut(4, channels, stride, dict(type='BN'))
    assert isinstance(pool, nn.AvgPool2d) == pools
    assert type(projection[0]) is nn.Conv2d and projection[0].kernel_size == (1, 1)
    size = -(-7 // stride)
    assert projection(pool(torch.randn(2, 4, 7, 7))).shape == (2, channels, size, size)
