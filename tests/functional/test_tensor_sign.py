import pytest
import torch

from rebnn_mm.functional import tensor_sign
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('per', ['tensor', 'channel'])
@pytest.mark.parametrize('centred', [False, True])
def test_forward_and_backward_are_the_written_out_formula(per, centred):
    generator = torch.Generator().manual_seed(0)
    w = (torch.randn(5, 7, generator=generator, dtype=torch.float64) + 0.3).requires_grad_()
    upstream = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    w_hat = tensor_sign(w, per, centred)
    (w_hat * upstream).sum().backward()
    value = w.detach()
    scale = value.abs().mean() if per == 'tensor' else value.abs().mean(dim=1, keepdim=True)
    above = value >= (value.mean() if centred else 0)
    torch.testing.assert_close(w_hat, torch.where(above, scale, -scale), atol=FLOAT64_EXACT, rtol=0)
    assert torch.equal(w.grad, upstream)
