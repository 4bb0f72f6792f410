import math

import pytest
import torch

from rebnn_mm.functional import sign_approx, sign_triangle, triangle_sharpness
from tests.tolerances import FLOAT64_EXACT

X = torch.tensor([-150.0, -2.0, -1.0, -0.1, -0.0, 0.0, 0.05, 0.75, 1.5], dtype=torch.float64)


def gradient(function, x, *args):
    x = x.clone().requires_grad_()
    upstream = torch.arange(1.0, len(x) + 1, dtype=torch.float64)
    (function(x, *args) * upstream).sum().backward()
    return x.grad, upstream


@pytest.mark.parametrize('t', [0.01, 0.5, 1.0, 10.0])
def test_gradient_is_the_closed_form(t):
    ours, upstream = gradient(sign_triangle, X, torch.tensor(t, dtype=torch.float64))
    expected = upstream * max(1 / t, 1) * (math.sqrt(2) * t - t**2 * X.abs()).clamp(min=0)
    assert (expected > 0).any() and (expected == 0).any()
    torch.testing.assert_close(ours, expected, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_triangle_of_half_width_one_is_the_quadratic_estimator():
    ours, _ = gradient(sign_triangle, X, torch.tensor(math.sqrt(2), dtype=torch.float64))
    torch.testing.assert_close(ours, gradient(sign_approx, X)[0], atol=FLOAT64_EXACT, rtol=0)


def test_two_values_and_zero_and_nan_are_plus_one():
    special = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), -float('inf'), 3.0])
    assert sign_triangle(special, torch.tensor(1.0)).tolist() == [1, 1, 1, -1, 1, -1, 1]


def test_schedule_is_even_on_a_logarithmic_scale():
    values = [math.log10(triangle_sharpness(step / 6)) for step in range(7)]
    assert values == pytest.approx([-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0])
    assert triangle_sharpness(0.5, 1.0, 4.0) == pytest.approx(2.0)
