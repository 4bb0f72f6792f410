import pytest
import torch

from rebnn_mm.quantizers import TWNWeight


def test_by_hand():
    w = torch.tensor([[0.5, -1.0, 3.0, -0.5], [0.1, 0.2, 0.3, -1.4]], requires_grad=True)
    # 0.7 times the mean magnitude of 0.875 is 0.6125; -1, 3 and -1.4 are above it.
    w_hat = TWNWeight((2, 4))(w)
    torch.testing.assert_close(w_hat.detach(), torch.tensor([[0.0, -1.8, 1.8, 0.0], [0.0, 0.0, 0.0, -1.8]]))
    w_hat.sum().backward()
    assert w.grad.tolist() == [[1, 1, 0, 1], [1, 1, 1, 1]]
    by_channel = TWNWeight((2, 4), per='channel')(w)
    assert by_channel.tolist() == [[0, -2, 2, 0], [0, 0, 0, pytest.approx(-1.4)]]


def test_only_channels_with_a_scale_each_stand_alone():
    assert TWNWeight((2, 4), per='channel').channels_alone and not TWNWeight((2, 4)).channels_alone


def test_unknown_extent_is_refused():
    with pytest.raises(ValueError, match="TWNWeight: per='row' is unknown; use 'tensor' or 'channel'"):
        TWNWeight((2, 4), per='row')
