import math

import pytest
import torch

from rebnn_mm.methods import ReSTESign, ReSTEWeight
from rebnn_mm.methods.reste import reste_power, sign_power
from tests.tolerances import FLOAT64_EXACT

X = torch.tensor([-1.6, -1.5, -0.7, -0.1, -0.03, 0.0, 0.05, 0.1, 0.11, 1.0, 1.51], dtype=torch.float64)


def slope(x: float, o: float) -> float:
    if abs(x) > 1.5:
        return 0.0
    return 0.1 ** (1 / o) / 0.1 if abs(x) <= 0.1 else abs(x) ** ((1 - o) / o) / o


@pytest.mark.parametrize('o', [1.0, 1.7, 3.0])
def test_gradient_is_the_closed_form(o):
    x = X.clone().requires_grad_()
    upstream = torch.arange(1.0, len(X) + 1, dtype=torch.float64)
    out = sign_power(x, torch.tensor(o, dtype=torch.float64))
    (out * upstream).sum().backward()
    expected = upstream * torch.tensor([slope(value, o) for value in X.tolist()], dtype=torch.float64)
    assert torch.equal(out.detach(), torch.where(X < 0, -1.0, 1.0).double())
    torch.testing.assert_close(x.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_between_the_constant_and_the_window_it_is_the_derivative_of_the_root():
    x = torch.linspace(0.2, 1.4, 7, dtype=torch.float64)
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    sign_power(ours, torch.tensor(2.5).double()).sum().backward()
    reference.pow(1 / 2.5).sum().backward()
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=0)


def test_the_power_rises_slowly_at_first_and_is_saved():
    assert [reste_power(p, 5.0) for p in (0.0, 1.0)] == pytest.approx([1.0, 5.0])
    assert reste_power(2 / 3, 3.0) == pytest.approx(2.0)  # 1 - cos(60 degrees) is a half
    for quantizer in (ReSTEWeight((2, 4)), ReSTESign(4)):
        quantizer.set_progress(2 / 3)
        assert quantizer.state_dict()['power'].item() == pytest.approx(2.0)


@pytest.mark.parametrize('done', [0.0, 0.8])
def test_weight_gradient_has_the_scale_of_the_layer_in_it(done):
    quantizer = ReSTEWeight((3, 20)).double()
    quantizer.set_progress(done)
    w = torch.randn(3, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    upstream = torch.randn(3, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours = w.clone().requires_grad_()
    out = quantizer(ours)
    (out * upstream).sum().backward()
    b, scale = torch.where(w < 0, -1.0, 1.0).double(), w.abs().mean()
    o = 1 + 2 * (1 - math.cos(math.pi * done / 2))
    slopes = torch.tensor([slope(value, o) for value in w.flatten().tolist()], dtype=torch.float64).view(3, 20)
    assert 0 < (slopes == 0).sum() < 60
    torch.testing.assert_close(out.detach(), b * scale, atol=FLOAT64_EXACT, rtol=0)
    expected = upstream * scale * slopes + b * (upstream * b).sum() / 60
    torch.testing.assert_close(ours.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_activation_has_the_estimator_of_its_schedule():
    quantizer = ReSTESign(3).double()
    quantizer.set_progress(1.0)
    x = X.clone().requires_grad_()
    quantizer(x).sum().backward()
    expected = torch.tensor([slope(value, 3.0) for value in X.tolist()], dtype=torch.float64)
    torch.testing.assert_close(x.grad, expected, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('cls', [ReSTEWeight, ReSTESign])
def test_wrong_end_is_refused(cls):
    with pytest.raises(ValueError, match=f'{cls.__name__}: end=0.5 must be a number of at least 1'):
        cls((2, 4) if cls is ReSTEWeight else 4, end=0.5)
