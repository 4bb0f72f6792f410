import math

import pytest
import torch

from rebnn_mm.functional import fourier_terms, noise_factor, sign_fourier
from tests.tolerances import FLOAT64_EXACT

X = torch.tensor([-40.0, -1.001, -1.0, -0.9, -0.3, -0.0, 0.0, 1e-300, 1e-9, 0.5, 1.0, 2.0], dtype=torch.float64)


def partial_sum(x, highest, omega=0.1):
    """The series whose derivative is used, as printed."""
    return sum(4 / math.pi * torch.sin((2 * i + 1) * omega * x) / (2 * i + 1) for i in range(highest + 1))


@pytest.mark.parametrize('highest', [0, 9, 18])
def test_gradient_is_that_of_the_series_inside_one(highest):
    ours, series = X.clone().requires_grad_(), X.clone().requires_grad_()
    upstream = torch.arange(1.0, len(X) + 1, dtype=torch.float64)
    (sign_fourier(ours, torch.tensor(highest)) * upstream).sum().backward()
    (partial_sum(series, highest) * upstream * (X.abs() <= 1)).sum().backward()
    assert series.grad.count_nonzero() == 9
    torch.testing.assert_close(ours.grad, series.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_series_approaches_the_sign_up_to_half_a_period():
    x = torch.linspace(2, math.pi / 0.1 - 2, 200, dtype=torch.float64)
    far = [(partial_sum(x, n) - 1).abs().max().item() for n in (18, 180, 1800)]
    assert far[0] > 5 * far[1] > 25 * far[2] and far[2] < 0.002


def test_first_zero_of_the_derivative():
    x = torch.tensor([math.pi / (2 * 19 * 0.1)], dtype=torch.float64, requires_grad=True)
    sign_fourier(x, torch.tensor(18)).sum().backward()
    assert x.item() == pytest.approx(0.8267, abs=1e-4) and abs(x.grad.item()) < FLOAT64_EXACT


def test_two_values_and_no_gradient_for_what_is_not_finite():
    x = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), float('inf'), -float('inf')], requires_grad=True)
    out = sign_fourier(x, torch.tensor(9.0))
    out.sum().backward()
    assert out.tolist() == [1, 1, 1, -1, 1, 1, -1]
    assert x.grad.tolist() == pytest.approx([4 / math.pi] * 4 + [0.0] * 3)


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_stays_half(dtype):
    x = torch.linspace(-1, 1, 9).to(dtype).requires_grad_()
    sign_fourier(x, torch.tensor(9.0)).sum().backward()
    double = x.detach().double().requires_grad_()
    partial_sum(double, 9).sum().backward()
    torch.testing.assert_close(x.grad.double(), double.grad, atol=0, rtol=4 * torch.finfo(dtype).eps)


def test_terms_grow_by_whole_numbers_and_noise_fades():
    assert [fourier_terms(epoch / 18) for epoch in range(19)] == sorted(
        fourier_terms(epoch / 18) for epoch in range(19)
    )
    assert (fourier_terms(0.0), fourier_terms(1.0), fourier_terms(0.5, 2, 6)) == (9, 18, 4)
    assert [noise_factor(done) for done in (0.0, 1 / 3, 0.5, 1.0)] == pytest.approx([0.1, 0.075, 0.05, 0.0])
