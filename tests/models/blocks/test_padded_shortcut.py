import torch

from rebnn_mm.models.blocks import PaddedShortcut


def test_keeps_every_second_position_between_channels_of_zeros():
    x = torch.randn(2, 4, 6, 5)
    y = PaddedShortcut(4, 8, 2)(x)
    assert y.shape == (2, 8, 3, 3)
    assert torch.equal(y[:, 2:6], x[:, :, ::2, ::2])
    assert not y[:, :2].any() and not y[:, 6:].any()


def test_odd_number_of_new_channels_and_no_stride():
    x = torch.randn(1, 2, 3, 3)
    assert torch.equal(PaddedShortcut(2, 5, 1)(x)[:, 1:3], x)


def test_has_no_parameters():
    assert not list(PaddedShortcut(4, 8, 2).parameters())
