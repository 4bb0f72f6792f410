import pytest
import torch

from rebnn_mm.methods import TernaryBERTActivation, TWNWeight

SHAPE = (6, 5, 2, 2)


def weight(seed=0, dtype=torch.float64):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_gradient_passes_unscaled_inside_the_clip():
    w = (weight() * 2).requires_grad_()
    upstream = weight(1)
    (TWNWeight(SHAPE, clip=2.5)(w) * upstream).sum().backward()
    assert 0 < (w.detach().abs() >= 2.5).sum() < w.numel()
    assert torch.equal(w.grad, torch.where(w.detach().abs() < 2.5, upstream, torch.zeros_like(upstream)))


def test_weight_by_hand():
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


def test_activation_by_hand():
    x = torch.tensor([[0.5, -1.5, 4.0], [0.1, 0.3, -0.4]], requires_grad=True)
    y = TernaryBERTActivation(3, -1)(x)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), torch.tensor([[0.0, -2.5, 2.5], [0.0, 0.4, -0.4]]))
    assert x.grad.tolist() == [[1, 1, 0], [1, 1, 1]]


def test_one_maximum_for_the_tensor():
    x = torch.tensor([[0.5, -1.5, 2.0], [0.1, 0.3, -0.4]])
    assert TernaryBERTActivation(3, -1, over='tensor')(x).tolist() == [[0, -2, 2], [0, 0, 0]]


def test_other_tokens_do_not_change_a_token_by_default():
    x = torch.randn(2, 5, 4)
    quantizer = TernaryBERTActivation(4, -1)
    assert torch.equal(quantizer(x)[:, :3], quantizer(x[:, :3]))


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="over='batch' is unknown; use 'sample' or 'tensor'"):
        TernaryBERTActivation(3, over='batch')
    with pytest.raises(ValueError, match='must be a whole number from 2 to 8'):
        TernaryBERTActivation(3, bits=1)
