import pytest
import torch
from torch import nn

from rebnn_mm.models.shortcuts import PaddedShortcut, pooled_shortcut


def test_pooled_shortcut_where_nothing_changes_there_is_nothing():
    assert [type(part) for part in pooled_shortcut(4, 4, 1, dict(type='BN'))] == [nn.Identity, nn.Identity]


@pytest.mark.parametrize(('channels', 'stride', 'pools'), [(8, 1, False), (4, 2, True), (8, 3, True)])
def test_pooled_shortcut_pools_only_where_the_resolution_changes_and_a_real_1x1_convolution(channels, stride, pools):
    pool, projection = pooled_shortcut(4, channels, stride, dict(type='BN'))
    assert isinstance(pool, nn.AvgPool2d) == pools
    assert type(projection[0]) is nn.Conv2d and projection[0].kernel_size == (1, 1)
    size = -(-7 // stride)
    assert projection(pool(torch.randn(2, 4, 7, 7))).shape == (2, channels, size, size)


def test_padded_shortcut_keeps_every_second_position_between_channels_of_zeros():
    x = torch.randn(2, 4, 6, 5)
    y = PaddedShortcut(4, 8, 2)(x)
    assert y.shape == (2, 8, 3, 3)
    assert torch.equal(y[:, 2:6], x[:, :, ::2, ::2])
    assert not y[:, :2].any() and not y[:, 6:].any()


def test_padded_shortcut_with_an_odd_number_of_new_channels_and_no_stride():
    x = torch.randn(1, 2, 3, 3)
    assert torch.equal(PaddedShortcut(2, 5, 1)(x)[:, 1:3], x)


def test_padded_shortcut_has_no_parameters():
    assert not list(PaddedShortcut(4, 8, 2).parameters())
