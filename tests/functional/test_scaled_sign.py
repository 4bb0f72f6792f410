import pytest
import torch

from rebnn_mm.functional import channel_mean_abs, tensor_sign, zero_outside_one_
from tests.tolerances import FLOAT64_EXACT


def test_channel_mean_abs_is_the_least_squares_scale():
    weight = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w = weight.flatten(1)
    b = torch.where(w < 0, -1.0, 1.0).double()
    least_squares = torch.stack(
        [torch.linalg.lstsq(bi[:, None], wi[:, None]).solution[0, 0] for bi, wi in zip(b, w, strict=True)]
    )
    torch.testing.assert_close(channel_mean_abs(weight), least_squares, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_mask_ends_exactly_at_one(dtype):
    one, zero, two = (torch.tensor(value, dtype=dtype) for value in (1.0, 0.0, 2.0))
    beyond, within = torch.nextafter(one, two), torch.nextafter(one, zero)
    weight = torch.stack([-two, -beyond, -one, -within, zero, within, one, beyond, two])
    grad = torch.full_like(weight, 3)
    assert zero_outside_one_(grad, weight) is grad
    assert grad.tolist() == [0, 0, 3, 3, 3, 3, 3, 0, 0]


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
