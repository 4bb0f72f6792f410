import math

import pytest
import torch

from rebnn_mm.functional import sign_tanh
from rebnn_mm.methods import IRNetConv2d, IRNetSign, IRNetWeight
from rebnn_mm.methods.irnet import libra, power_of_two
from tests.tolerances import FLOAT64_EXACT


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_values_by_hand():
    """Row one: (-3, -1, 1, 3) over sqrt(20 / 3), mean magnitude 0.77, so 2^0; row two: mean magnitude 0.58, 2^-1."""
    w = torch.tensor([[1.0, 2.0, 3.0, 4.0, 0.0, 5.0, 2.5, 2.5], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 8.0]])
    out = IRNetWeight((2, 8))(w)
    assert out[0].tolist() == [-1, -1, 1, 1, -1, 1, 1, 1]
    assert out[1].tolist() == [-0.5] * 7 + [0.5]


def test_standardised_channels_have_mean_0_and_unbiased_deviation_1():
    v = libra(random(3, 4, 3, 3) * 5 + 2)
    torch.testing.assert_close(v.mean((1, 2, 3)), torch.zeros(3).double(), atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(v.std((1, 2, 3)), torch.ones(3).double(), atol=FLOAT64_EXACT, rtol=0)


def test_scale_is_a_power_of_two_of_the_rounded_exponent():
    values = torch.tensor([2**e for e in (-3.4, -0.6, -0.4, 0.0, 1.4, 1.6)], dtype=torch.float64)
    assert power_of_two(values[:, None]).tolist() == [2**-3, 0.5, 1, 1, 2, 4]


@pytest.mark.parametrize('done', [0.0, 0.6, 1.0])
def test_gradient_goes_through_estimator_deviation_and_mean_and_not_through_the_scale(done):
    quantizer = IRNetWeight((3, 10)).double()
    quantizer.set_progress(done)
    w, upstream = random(3, 10), random(3, 10, seed=1)
    ours, reference = w.clone().requires_grad_(), w.clone().requires_grad_()
    (quantizer(ours) * upstream).sum().backward()
    centred = reference - reference.mean(1, keepdim=True)
    v = centred / centred.std(1, keepdim=True)
    t = quantizer.sharpness.item()
    slope = max(1 / t, 1) * t * (1 - torch.tanh(t * v.detach()) ** 2)
    scale = 2 ** torch.round(torch.log2(v.detach().abs().mean(1, keepdim=True)))
    (v * slope * scale * upstream).sum().backward()
    torch.testing.assert_close(ours.grad, reference.grad, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_a_constant_filter_and_a_filter_of_one_weight_are_plus_one_with_finite_gradients():
    for shape in ((2, 4), (2, 1)):
        w = torch.full(shape, 0.3, requires_grad=True)
        out = IRNetWeight(shape)(w)
        out.square().sum().backward()
        assert torch.equal(out, torch.ones(shape)) and w.grad.isfinite().all()


def test_schedule_starts_and_ends_where_the_released_code_says_and_is_saved():
    weight, activation = IRNetWeight((2, 4)), IRNetSign(4)
    for done, t in ((0.0, 1e-3), (0.25, 1e-2), (0.5, 1e-1), (1.0, 10.0)):
        for quantizer in (weight, activation):
            quantizer.set_progress(done)
            assert quantizer.state_dict()['sharpness'].item() == pytest.approx(t)


def test_activation_has_the_estimator_of_its_schedule():
    quantizer = IRNetSign(3, t=(2.0, 2.0)).double()
    x = random(4, 3).requires_grad_()
    quantizer(x).sum().backward()
    expected = 2 * (1 - torch.tanh(2 * x.detach()) ** 2)
    torch.testing.assert_close(x.grad, expected, atol=FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('cls', [IRNetWeight, IRNetSign])
def test_wrong_range_is_refused(cls):
    with pytest.raises(ValueError, match=f'{cls.__name__}: t=.* must be .first, last. with 0 < first <= last'):
        cls((2, 4) if cls is IRNetWeight else 4, t=(0.0, 1.0))


def test_at_the_start_the_estimator_is_the_identity_to_a_millionth():
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    sign_tanh(x, torch.tensor(1e-3, dtype=torch.float64)).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(5).double(), atol=1.1e-6, rtol=0)


def test_inference_multiplies_by_powers_of_two_alone():
    conv = IRNetConv2d(8, 6, 3, bias=False)
    factor = conv.weight_quantizer.codes(conv.weight.detach())[1]
    assert all(math.frexp(value)[0] == 0.5 for value in factor.tolist())


def test_small_weights_in_half_precision():
    weight = 0.004 * torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(libra(weight.half()).float(), libra(weight.half().float()), atol=2e-3, rtol=1e-3)
