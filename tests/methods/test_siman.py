import numpy as np
import pytest
import torch

from rebnn_mm.functional import sign_approx
from rebnn_mm.methods import SiMaNLinear, SiMaNSign, SiMaNWeight
from rebnn_mm.methods.siman import above_median, clamp_magnitudes
from tests.tolerances import FLOAT64_EXACT


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_values_by_hand():
    """Centred rows are (-6, -1, 2, 5) and (1, -3, 0, 2); their magnitudes have the medians 3.5 and 1.5."""
    quantizer = SiMaNWeight((2, 4))
    quantizer.alpha.data = torch.tensor([2.0, 0.5])
    out = quantizer(torch.tensor([[-5.0, 0.0, 3.0, 6.0], [1.0, -3.0, 0.0, 2.0]]))
    assert out.tolist() == [[2, -2, -2, 2], [-0.5, 0.5, -0.5, 0.5]]


@pytest.mark.parametrize('count', [3, 8, 72])
def test_half_of_each_filter_is_plus_one_and_those_are_the_largest(count):
    w = random(5, count)
    codes, _ = SiMaNWeight((5, count)).double().codes(w)
    size = (w - w.mean(1, keepdim=True)).abs()
    assert torch.equal((codes > 0).sum(1), torch.full((5,), count - count // 2))
    for row, magnitude in zip(codes, size, strict=True):
        assert magnitude[row > 0].min() > magnitude[row < 0].max()
    np.testing.assert_allclose(above_median(w).numpy(), (size - size.quantile(0.5, dim=1, keepdim=True)).numpy())


def test_gradient_is_the_identity_into_the_magnitude_and_true_from_there():
    quantizer = SiMaNWeight((3, 12)).double()
    quantizer.alpha.data.uniform_(0.5, 1.5)
    w, upstream = random(3, 12), random(3, 12, seed=1)
    ours, reference = w.clone().requires_grad_(), w.clone().requires_grad_()
    out = quantizer(ours)
    (out * upstream).sum().backward()
    centred = reference - reference.mean(1, keepdim=True)
    v = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    (v.abs() * quantizer.alpha.detach().view(-1, 1) * upstream).sum().backward()
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=0)
    expected = (upstream * quantizer.codes(w)[0]).sum(1)
    torch.testing.assert_close(quantizer.alpha.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_sign_of_a_weight_does_not_matter():
    w = random(2, 8)
    w -= w.mean(1, keepdim=True)
    quantizer = SiMaNWeight((2, 8)).double()
    assert torch.equal(quantizer.codes(-w)[0], quantizer.codes(w)[0])


@pytest.mark.parametrize('percent', [0.0, 12.5, 15.0, 40.0])
def test_magnitudes_are_clamped_between_the_percentiles_of_the_layer(percent):
    w = random(4, 9)
    centred = (w - w.mean(1, keepdim=True)).numpy()
    low, high = np.percentile(np.abs(centred), [percent, 100 - percent])
    expected = np.clip(np.abs(centred), low, high) * np.sign(centred)
    clamped = clamp_magnitudes(w, torch.tensor(percent, dtype=torch.float64))
    np.testing.assert_allclose(clamped.numpy(), expected, atol=FLOAT64_EXACT)


def test_constraint_follows_the_schedule_which_is_saved():
    quantizer = SiMaNWeight((4, 9)).double()
    spreads = []
    for done, percent in ((0.0, 15.0), (0.5, 7.5), (1.0, 0.0)):
        quantizer.set_progress(done)
        assert quantizer.state_dict()['percent'].item() == percent
        w = random(4, 9)
        quantizer.constrain(w)
        spreads.append((w.abs().max() - w.abs().min()).item())
    assert spreads == sorted(spreads) and spreads[0] < spreads[-1]


def test_a_gradient_that_makes_small_weights_grow_turns_their_bits():
    layer = SiMaNLinear(6, 1, bias=False, activation=None)
    layer.weight.data = torch.tensor([[-3.0, 3.0, -2.0, 2.0, -1.0, 1.0]])
    layer.weight_quantizer.alpha.data.fill_(1.0)
    optimizer = torch.optim.SGD([layer.weight], lr=1.0)
    for _ in range(5):
        optimizer.zero_grad()
        layer(torch.tensor([[1.0, 1.0, 0.0, 0.0, -1.0, -1.0]])).sum().backward()
        optimizer.step()
    # The output falls while the codes of its negative inputs are +1, those of its positive ones -1.
    codes = layer.weight_quantizer.codes(layer.weight.detach())[0][0]
    assert codes[[4, 5]].eq(1).all() and codes[[0, 1]].eq(-1).any()


@pytest.mark.parametrize('percent', [-1.0, 50.0])
def test_wrong_percent_is_refused(percent):
    with pytest.raises(ValueError, match=f'SiMaNWeight: percent={percent} must be a number from 0 to below 50'):
        SiMaNWeight((2, 4), percent=percent)


def test_activation_sees_each_sample_standardised_in_training_and_evaluation():
    x, upstream = random(2, 3, 4), random(2, 3, 4, seed=1)
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    quantizer = SiMaNSign(3)
    out = quantizer(ours)
    (out * upstream).sum().backward()
    variance, mean = torch.var_mean(reference, dim=(1, 2), correction=0, keepdim=True)
    expected = sign_approx((reference - mean) / torch.sqrt(variance + 1e-5))
    (expected * upstream).sum().backward()
    assert torch.equal(out, expected) and torch.equal(quantizer.eval()(x), expected)
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=0)
