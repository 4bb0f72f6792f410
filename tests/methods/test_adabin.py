import pytest
import torch

from rebnn_mm.methods import AdaBinActivation, AdaBinEDEWeight, AdaBinWeight
from tests.tolerances import FLOAT64_EXACT


def test_weight_by_hand():
    w = torch.tensor([[0.0, 1.0, 3.0, 4.0], [-2.0, -2.0, 2.0, 2.0]], dtype=torch.float64)
    spread = 2.5**0.5
    expected = torch.tensor([[2 - spread] * 2 + [2 + spread] * 2, [-2.0, -2.0, 2.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(AdaBinWeight((2, 4))(w), expected, atol=FLOAT64_EXACT, rtol=0)


def test_weight_keeps_mean_and_deviation_of_a_symmetric_filter():
    half = torch.rand(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w = torch.cat([0.7 + half, 0.7 - half], dim=1)
    w_hat = AdaBinWeight((3, 16))(w)
    torch.testing.assert_close(w_hat.mean(1), w.mean(1), atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(w_hat.std(1), w.std(1), atol=FLOAT64_EXACT, rtol=0)


def test_weight_gradient_is_the_closed_form():
    """With the identity as estimator, w_hat is w + (b - v) alpha, where b - v counts as constant."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(2, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    (AdaBinWeight((2, 6))(w) * upstream).sum().backward()
    centred = w.detach() - w.detach().mean(1, keepdim=True)
    alpha = centred.square().mean(1, keepdim=True).sqrt()
    v = centred / alpha
    b = torch.where(centred < 0, -1.0, 1.0).double()
    expected = upstream + (upstream * (b - v)).sum(1, keepdim=True) * v / 6
    torch.testing.assert_close(w.grad, expected, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('done', [0.0, 0.9])
def test_the_released_estimator_weighs_what_goes_through_the_sign(done):
    """With slope s at v, w_hat is alpha (b + s v) + beta, where b and s count as constants."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    upstream = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    quantizer = AdaBinEDEWeight((2, 6)).double()
    quantizer.set_progress(done)
    t = 1e-3 * 1e4**done
    ours, reference = w.clone().requires_grad_(), w.clone().requires_grad_()
    out = quantizer(ours)
    (out * upstream).sum().backward()
    beta = reference.mean(1, keepdim=True)
    alpha = (reference - beta).square().mean(1, keepdim=True).sqrt()
    v = (reference - beta) / alpha
    slope = max(1 / t, 1) * t * (1 - torch.tanh(t * v.detach()).square())
    b = torch.where(w < w.mean(1, keepdim=True), -1.0, 1.0).double()
    ((alpha * (b + slope * (v - v.detach())) + beta) * upstream).sum().backward()
    torch.testing.assert_close(out, AdaBinWeight((2, 6))(w), atol=0, rtol=0)
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_the_released_default_is_its_own_formula():
    quantizer = AdaBinEDEWeight((1, 3), t=(0.1, 0.1)).double()
    quantizer.set_progress(0.0)
    v = torch.tensor([[-1.0, 0.2, 4.0]], dtype=torch.float64, requires_grad=True)
    quantizer.sign(v).sum().backward()
    torch.testing.assert_close(v.grad, 1 - torch.tanh(v.detach() / 10).square(), atol=FLOAT64_EXACT, rtol=0)


def test_constant_filter_keeps_its_value_and_a_finite_gradient():
    w = torch.full((1, 4), 0.5, requires_grad=True)
    w_hat = AdaBinWeight((1, 4))(w)
    w_hat.sum().backward()
    assert torch.equal(w_hat, w) and w.grad.isfinite().all()


@pytest.mark.parametrize(('variant', 'values'), [('paper', [1.5, 2.5]), ('official', [0.5, 1.5])])
def test_activation_by_hand(variant, values):
    quantizer = AdaBinActivation(2, variant=variant)
    quantizer.alpha.data, quantizer.beta.data = torch.tensor(0.5), torch.tensor(2.0)
    out = quantizer(torch.tensor([[1.0, 3.0], [2.0, -9.0]]))
    assert out.tolist() == [values, values[::-1]]


def test_activation_gradients_are_the_closed_form():
    quantizer = AdaBinActivation(3).double()
    quantizer.alpha.data.fill_(0.8)
    quantizer.beta.data.fill_(0.3)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    (quantizer(x) * upstream).sum().backward()
    u = (x.detach() - 0.3) / 0.8
    slope = (2 - 2 * u.abs()).clamp(min=0)
    b = torch.where(u < 0, -1.0, 1.0).double()
    torch.testing.assert_close(x.grad, upstream * slope, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(quantizer.beta.grad, (upstream * (1 - slope)).sum(), atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(quantizer.alpha.grad, (upstream * (b - u * slope)).sum(), atol=FLOAT64_EXACT, rtol=0)


def test_unknown_variant_is_refused():
    with pytest.raises(ValueError, match="variant='released' is unknown; use 'paper' or 'official'"):
        AdaBinActivation(3, variant='released')


def test_small_weights_in_half_precision():
    weight = (0.004 * torch.randn(4, 64, generator=torch.Generator().manual_seed(0))).half()
    found, exact = AdaBinWeight((4, 64))(weight), AdaBinWeight((4, 64))(weight.float())
    torch.testing.assert_close(found.float(), exact, atol=1e-5, rtol=1e-2)
