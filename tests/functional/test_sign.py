import math

import pytest
import torch

from rebnn_mm.functional import sharpness_at, sign, sign_approx, sign_ste, sign_tanh, step_ste, zero_outside_one_
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


@pytest.mark.parametrize('t', [0.01, 1.0, 3.0])
def test_sharpening_tangent_has_its_closed_form(t):
    sharpness = torch.tensor(t, dtype=torch.float64)
    assert torch.equal(sign_tanh(SPECIAL.double(), sharpness), EXPECTED.double())
    x = torch.tensor([-2.0, -0.5, -0.0, 0.25, 1.5], dtype=torch.float64)
    upstream = torch.arange(1.0, 6.0, dtype=torch.float64)
    ours, reference = x.clone().requires_grad_(), x.clone().requires_grad_()
    (sign_tanh(ours, sharpness) * upstream).sum().backward()
    (max(1 / t, 1) * torch.tanh(t * reference) * upstream).sum().backward()
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=0)


def test_schedule_is_even_on_a_logarithmic_scale():
    values = [math.log10(sharpness_at(step / 6)) for step in range(7)]
    assert values == pytest.approx([-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0])
    assert sharpness_at(0.5, 1.0, 4.0) == pytest.approx(2.0)


SPECIAL_OF_STEP = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), float('inf'), -float('inf'), 2.0, -2.0])


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64, torch.bfloat16])
def test_step_zero_is_a_tie_and_nan_does_not_attend(dtype):
    x = SPECIAL_OF_STEP.to(dtype)
    tiny = float(x[2] > 0)  # bfloat16 has no number as small
    assert step_ste(x).tolist() == [1, 1, 1, 1 - tiny, 0, 1, 0, 1, 0]
    assert step_ste(x, tie=False).tolist() == [0, 0, tiny, 0, 0, 1, 0, 1, 0]
    assert step_ste(x).dtype == dtype


@pytest.mark.parametrize('tie', [True, False])
def test_step_gradient_passes_in_the_window(tie):
    x = torch.tensor([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5], dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(1.0, 8.0, dtype=torch.float64)
    (step_ste(x, tie) * upstream).sum().backward()
    assert x.grad.tolist() == [0, 2, 3, 4, 5, 6, 0]


@pytest.mark.parametrize('function', [sign_ste, step_ste])
@pytest.mark.parametrize('memory_format', [torch.contiguous_format, torch.channels_last], ids=str)
def test_where_the_gradient_passes_is_kept_in_one_bit_for_each_value(function, memory_format):
    x = (2 * torch.randn(2, 5, 6, 7)).contiguous(memory_format=memory_format).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.nbytes) or t, lambda t: t):
        y = function(x)
    assert kept == [-(-x.numel() // 8)]
    upstream = torch.randn_like(y)
    y.backward(upstream)
    assert torch.equal(x.grad, upstream * (x.detach().abs() <= 1))


@pytest.mark.parametrize('dtype', [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_mask_ends_exactly_at_one(dtype):
    one, zero, two = (torch.tensor(value, dtype=dtype) for value in (1.0, 0.0, 2.0))
    beyond, within = torch.nextafter(one, two), torch.nextafter(one, zero)
    weight = torch.stack([-two, -beyond, -one, -within, zero, within, one, beyond, two])
    grad = torch.full_like(weight, 3)
    assert zero_outside_one_(grad, weight) is grad
    assert grad.tolist() == [0, 0, 3, 3, 3, 3, 3, 0, 0]
