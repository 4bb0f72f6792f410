import math

import pytest
import torch

from rebnn_mm.methods import ReCUSign, ReCUWeight
from tests.tolerances import FLOAT64_EXACT


def standardised(w):
    centred = w - w.mean(dim=1, keepdim=True)
    return 2 * math.sqrt(2) * centred / torch.sqrt(centred.square().mean(dim=1, keepdim=True) + 1e-5)


def test_values_are_the_signs_of_the_centred_weight():
    quantizer = ReCUWeight((2, 3))
    quantizer.alpha.data = torch.tensor([2.0, 0.5])
    out = quantizer(torch.tensor([[1.0, 2.0, 6.0], [-1.0, -1.0, -4.0]]))
    assert out.tolist() == [[-2.0, -2.0, 2.0], [0.5, 0.5, -0.5]]


@pytest.mark.parametrize('done', [0.0, 1.0])
def test_gradient_passes_inside_the_quantile_and_through_the_standardisation(done):
    w = torch.randn(4, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    upstream = torch.randn(4, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    quantizer = ReCUWeight((4, 30)).double()
    quantizer.alpha.data.uniform_(0.5, 1.5)
    quantizer.set_progress(done)
    ours, reference = w.clone().requires_grad_(), w.clone().requires_grad_()
    (quantizer(ours) * upstream).sum().backward()
    v = standardised(reference)
    bound = -math.log(2 - 2 * (0.85, 0.99)[int(done)]) * v.detach().abs().mean()
    inside = (v.detach().abs() <= bound).double()
    assert 0 < inside.mean() < 1 if done == 0 else inside.mean() == 1
    (v * upstream * quantizer.alpha.detach().view(-1, 1) * inside).sum().backward()
    # tau is a float32 buffer turned into float64, so the bound is exact to float32 only; no weight lies that near.
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=0)


def test_tau_follows_the_exponential_schedule_and_is_saved():
    quantizer = ReCUWeight((1, 2), tau=(0.8, 1.0))
    for done, tau in ((0.0, 0.8), (0.5, 0.8 + 0.2 * (math.exp(0.5) - 1) / (math.e - 1)), (1.0, 1.0)):
        quantizer.set_progress(done)
        assert quantizer.state_dict()['tau'].item() == pytest.approx(tau)


def test_tau_of_one_clamps_nothing():
    quantizer = ReCUWeight((1, 50), tau=(1.0, 1.0))
    w = torch.randn(1, 50, generator=torch.Generator().manual_seed(0)).requires_grad_()
    upstream = torch.zeros(1, 50)
    upstream[0, w.abs().argmax()] = 1.0
    (quantizer(w) * upstream).sum().backward()
    assert w.grad.abs().sum() > 0


def test_wrong_tau_is_refused():
    with pytest.raises(ValueError, match=r'tau=\(0.99, 0.85\) must be \(first, last\) with 0.5 <= first <= last'):
        ReCUWeight((1, 2), tau=(0.99, 0.85))


def test_activation_gradient_sees_the_sample_over_its_standard_deviation():
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    upstream = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = ReCUSign(3)(ours)
    (out * upstream).sum().backward()
    u = reference / torch.sqrt(reference.var(dim=(1, 2), correction=0, keepdim=True) + 1e-5)
    (u * upstream * (2 - 2 * u.detach().abs()).clamp(min=0)).sum().backward()
    assert torch.equal(out.detach(), torch.where(x < 0, -1.0, 1.0).double())
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=0)
