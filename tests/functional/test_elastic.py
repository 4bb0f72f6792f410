"""Each gradient against autograd of a smooth stand-in that is written out with the straight-through trick."""

import pytest
import torch

from rebnn_mm.functional import elastic_levels, elastic_sign
from tests.tolerances import FLOAT64_EXACT


def inputs():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, generator=generator, dtype=torch.float64)
    return x, torch.tensor(0.7, dtype=torch.float64), torch.randn(300, generator=generator, dtype=torch.float64)


def test_sign():
    x, alpha, upstream = inputs()
    x.requires_grad_(), alpha.requires_grad_()
    (elastic_sign(x, alpha) * upstream).sum().backward()
    sign = torch.where(x.detach() < 0, -1.0, 1.0).double()
    assert torch.equal(elastic_sign(x, alpha).detach(), 0.7 * sign)
    assert torch.equal(x.grad, upstream * (x.detach().abs() <= 0.7))
    torch.testing.assert_close(alpha.grad, (upstream * sign).sum() / 300**0.5, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize(('low', 'high'), [(0, 1), (0, 3), (-2, 1)])
def test_levels(low, high):
    x, alpha, upstream = inputs()
    x.requires_grad_(), alpha.requires_grad_()
    y = elastic_levels(x, alpha, low, high)
    (y * upstream).sum().backward()
    ours = x.grad.clone(), alpha.grad.clone()
    x.grad = alpha.grad = None
    ratio = (x / alpha).clamp(low, high)
    expected = alpha * (ratio + (ratio.round() - ratio).detach())
    (expected * upstream).sum().backward()
    torch.testing.assert_close(y, expected, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(ours[0], x.grad, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(ours[1], alpha.grad / (300 * high) ** 0.5, atol=FLOAT64_EXACT, rtol=0)
