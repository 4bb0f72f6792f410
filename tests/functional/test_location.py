import pytest
import torch

from rebnn_mm.functional import sampled_location
from tests.tolerances import FLOAT64_EXACT


def prediction(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(('shape', 'dim'), [((3, 8), 1), ((2, 24, 4, 5), 1), ((2, 5, 8), -1)])
def test_without_sigma_it_is_the_first_half(shape, dim):
    values = prediction(*shape)
    state = torch.random.get_rng_state()
    assert torch.equal(sampled_location(values, dim, 0.0), values.chunk(2, dim)[0])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_deviation_follows_the_predicted_variance():
    torch.manual_seed(0)
    log_variance = torch.tensor([0.0, 2.0, -4.0], dtype=torch.float64)
    values = torch.cat([torch.full((20000, 3), 5.0).double(), log_variance.expand(20000, 3)], dim=1)
    drawn = sampled_location(values, 1, sigma=0.1)
    # 20,000 draws estimate a deviation to half a percent (one standard error).
    assert drawn.std(dim=0).tolist() == pytest.approx((0.1 * (log_variance / 2).exp()).tolist(), rel=0.03)
    assert drawn.mean(dim=0).tolist() == pytest.approx([5.0] * 3, abs=0.01)


def test_gradients_are_the_closed_form():
    torch.manual_seed(1)
    values, upstream = prediction(4, 6).requires_grad_(), prediction(4, 3)
    drawn = sampled_location(values, 1, sigma=0.7)
    (drawn * upstream).sum().backward()
    of_mean, of_log_variance = values.grad.chunk(2, 1)
    mean = values.detach().chunk(2, 1)[0]
    torch.testing.assert_close(of_mean, upstream, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(of_log_variance, upstream * (drawn.detach() - mean) / 2, atol=FLOAT64_EXACT, rtol=0)
