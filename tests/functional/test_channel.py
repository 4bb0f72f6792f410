import pytest
import torch

from rebnn_mm.functional import channel_centred
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('shape', [(4, 6), (4, 2, 3, 3)])
def test_centring_takes_the_mean_off_weight_and_gradient(shape):
    generator = torch.Generator().manual_seed(0)
    w = (torch.randn(shape, generator=generator, dtype=torch.float64) + 1).requires_grad_()
    upstream = torch.randn(shape, generator=generator, dtype=torch.float64)
    out = channel_centred(w)
    assert out.flatten(1).mean(1).abs().max() < FLOAT64_EXACT
    (out * upstream).sum().backward()
    expected = upstream - upstream.flatten(1).mean(1).view(-1, *[1] * (len(shape) - 1))
    torch.testing.assert_close(w.grad, expected, atol=FLOAT64_EXACT, rtol=0)
    w.grad = None
    alone = channel_centred(w, through=False)
    assert torch.equal(alone, out)
    (alone * upstream).sum().backward()
    assert torch.equal(w.grad, upstream)
