import pytest
import torch

from rebnn_mm.quantizers import build_activation_quantizer
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('name', ['BinarySign', 'BinaryApproxSign', 'BinaryRSign'])
def test_every_special_value_is_plus_or_minus_one(name):
    special = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), 2.0, -2.0, float('-inf')]).view(1, 4, 2, 1)
    expected = torch.tensor([1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0]).view(1, 4, 2, 1)
    assert torch.equal(build_activation_quantizer(name, 4)(special), expected)


@pytest.mark.parametrize(
    ('name', 'derivative'),
    [
        ('BinarySign', lambda x: (x.abs() <= 1).double()),
        ('BinaryApproxSign', lambda x: (2 - 2 * x.abs()).clamp(min=0)),
        ('BinaryRSign', lambda x: (2 - 2 * x.abs()).clamp(min=0)),
    ],
)
def test_gradient_is_the_closed_form(name, derivative):
    x = torch.linspace(-2, 2, 24, dtype=torch.float64).view(2, 4, 3).requires_grad_()
    upstream = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (build_activation_quantizer(name, 4).double()(x) * upstream).sum().backward()
    torch.testing.assert_close(x.grad, upstream * derivative(x.detach()), atol=FLOAT64_EXACT, rtol=0)
