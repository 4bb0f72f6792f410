import pytest
import torch

from rebnn_mm.functional import centre_channels, channel_mean_abs, standardise
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('shape', [(4, 6), (4, 2, 3, 3)])
def test_centring_takes_the_mean_off_weight_and_gradient(shape):
    generator = torch.Generator().manual_seed(0)
    w = (torch.randn(shape, generator=generator, dtype=torch.float64) + 1).requires_grad_()
    upstream = torch.randn(shape, generator=generator, dtype=torch.float64)
    out = centre_channels(w)
    assert out.flatten(1).mean(1).abs().max() < FLOAT64_EXACT
    (out * upstream).sum().backward()
    expected = upstream - upstream.flatten(1).mean(1).view(-1, *[1] * (len(shape) - 1))
    torch.testing.assert_close(w.grad, expected, atol=FLOAT64_EXACT, rtol=0)
    w.grad = None
    alone = centre_channels(w, through=False)
    assert torch.equal(alone, out)
    (alone * upstream).sum().backward()
    assert torch.equal(w.grad, upstream)


def test_standardised_by_hand():
    x = torch.tensor([[1.0, 3.0, 5.0, 7.0], [2.0, 2.0, 2.0, 2.0]], dtype=torch.float64)
    expected = torch.tensor([[-3.0, -1.0, 1.0, 3.0], [0.0] * 4], dtype=torch.float64) / 5**0.5
    torch.testing.assert_close(standardise(x, (1,), eps=0.0)[0], expected[0], atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(standardise(x, (1,))[1], expected[1], atol=0, rtol=0)


def test_standardised_has_its_true_gradient_and_a_finite_one_for_constant_values():
    x = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: standardise(x, (1, 2)), x)
    constant = torch.full((1, 5), 3.0, requires_grad=True)
    standardise(constant, (1,)).square().sum().backward()
    assert constant.grad.isfinite().all()


def test_standardised_computes_half_precision_in_single():
    x = torch.tensor([[300.0, -300.0]], dtype=torch.float16)
    assert standardise(x, (1,)).tolist() == [[1.0, -1.0]] and standardise(x, (1,)).dtype == torch.float32


def test_channel_mean_abs_is_the_least_squares_scale():
    weight = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w = weight.flatten(1)
    b = torch.where(w < 0, -1.0, 1.0).double()
    least_squares = torch.stack(
        [torch.linalg.lstsq(bi[:, None], wi[:, None]).solution[0, 0] for bi, wi in zip(b, w, strict=True)]
    )
    torch.testing.assert_close(channel_mean_abs(weight), least_squares, atol=FLOAT64_EXACT, rtol=0)
