import pytest
import torch

from rebnn_mm.functional import symmetric_round, ternary_codes
from tests.tolerances import FLOAT64_EXACT

SHAPE = (6, 5, 2, 2)


def weight(seed=0, dtype=torch.float64):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize('per', ['tensor', 'channel'])
def test_threshold_and_scale_are_those_of_each_scale_alone(per):
    codes, scale = ternary_codes(weight(), per)
    for index, part in enumerate(weight() if per == 'channel' else [weight()]):
        large = part.abs() > 0.7 * part.abs().mean()
        expected = torch.where(large, torch.sign(part), torch.zeros_like(part))
        assert torch.equal((codes[index] if per == 'channel' else codes), expected)
        torch.testing.assert_close(scale.flatten()[index], part[large].abs().mean(), atol=FLOAT64_EXACT, rtol=0)


def values(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_levels_are_the_nearest_of_a_written_out_list():
    x, limit = values(200), torch.tensor(1.5, dtype=torch.float64)
    levels = torch.tensor([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5], dtype=torch.float64)
    nearest = levels[(x[:, None] - levels).abs().argmin(dim=1)]
    torch.testing.assert_close(symmetric_round(x, limit, bits=3), nearest, atol=FLOAT64_EXACT, rtol=0)


def test_gradient_with_and_without_clip():
    x, upstream = values(200).requires_grad_(), values(200, seed=1)
    limit = x.detach().abs().max()
    (symmetric_round(x, limit, bits=4) * upstream).sum().backward()
    assert torch.equal(x.grad, upstream)
    x.grad = None
    (symmetric_round(x, limit, bits=4, clip=1.0) * upstream).sum().backward()
    assert torch.equal(x.grad, upstream * (x.detach().abs() < 1))


def test_input_of_zeros_stays_zero():
    assert torch.equal(symmetric_round(torch.zeros(3), torch.tensor(0.0), bits=8), torch.zeros(3))


def test_a_large_weight_in_half_precision():
    codes, scale = ternary_codes(torch.full((768, 768), 0.25, dtype=torch.float16))
    assert scale == 0.25 and scale.dtype == torch.float16 and bool(codes.all())
