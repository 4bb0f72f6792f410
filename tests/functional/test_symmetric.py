import torch

from rebnn_mm.functional import grouped_round, symmetric_round
from tests.tolerances import FLOAT64_EXACT


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


def test_groups_have_ranges_of_their_own():
    w = values(6, 10)
    rounded = grouped_round(w, groups=3, bits=2)
    for group in range(3):
        part, out = w[2 * group : 2 * group + 2], rounded[2 * group : 2 * group + 2]
        levels = torch.linspace(0, 1, 4, dtype=torch.float64) * (part.max() - part.min()) + part.min()
        nearest = levels[(part[..., None] - levels).abs().argmin(dim=-1)]
        torch.testing.assert_close(out, nearest, atol=FLOAT64_EXACT, rtol=0)


def test_gradient_of_grouped_weights_passes_unchanged():
    w, upstream = values(6, 10).requires_grad_(), values(6, 10, seed=1)
    (grouped_round(w, groups=3, bits=2) * upstream).sum().backward()
    assert torch.equal(w.grad, upstream)


def test_constant_group_keeps_its_value():
    assert torch.equal(grouped_round(torch.full((2, 3), 0.7), 1, 2), torch.full((2, 3), 0.7))
