import pytest
import torch

from rebnn_mm.functional import sign, sign_approx, sign_ste
from tests.tolerances import FLOAT64_EXACT

SPECIAL = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), float('inf'), -float('inf'), 3.0, -3.0])
EXPECTED = torch.tensor([1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])


@pytest.mark.parametrize('function', [sign, sign_ste, sign_approx])
@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_two_values_and_zero_and_nan_are_plus_one(function, dtype):
    assert torch.equal(function(SPECIAL.to(dtype)), EXPECTED.to(dtype))


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_half_precision_stays_half(dtype):
    out = sign(torch.randn(100).to(dtype))
    assert out.dtype == dtype and set(out.tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize(
    ('function', 'derivative'),
    [(sign_ste, lambda x: (x.abs() <= 1).double()), (sign_approx, lambda x: (2 - 2 * x.abs()).clamp(min=0))],
)
def test_gradient_is_the_closed_form(function, derivative):
    x = torch.tensor([-2.0, -1.0, -0.75, -0.0, 0.0, 0.25, 1.0, 1.5], dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(1.0, 9.0, dtype=torch.float64)
    (function(x) * upstream).sum().backward()
    torch.testing.assert_close(x.grad, upstream * derivative(x.detach()), atol=FLOAT64_EXACT, rtol=0)
