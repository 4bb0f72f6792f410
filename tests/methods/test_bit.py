import pytest
import torch

from rebnn_mm.layers import BinaryLinear, calibrate_shifts
from rebnn_mm.methods import BiTSign, BiTStep, BiTWeight
from rebnn_mm.methods.bit import elastic_levels, elastic_sign
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


def test_weight_by_hand():
    w = torch.tensor([[0.5, 1.5], [3.0, -1.0]])  # the mean is 1
    assert BiTWeight((2, 2))(w).tolist() == [[-1.5, 1.5], [1.5, -1.5]]
    by_channel = BiTWeight((2, 2), per='channel')
    assert by_channel(w).tolist() == [[-1, 1], [2, -2]] and not by_channel.channels_alone
    assert torch.equal(by_channel.codes(w)[0] < 0, by_channel.latent(w) < 0)


def test_sign_and_step_by_hand():
    sign, step = BiTSign(2), BiTStep(2)
    sign.alpha.data.fill_(0.5)
    step.alpha.data.fill_(0.5)
    x = torch.tensor([[-1.0, 0.2], [0.3, 0.0]])
    assert sign(x).tolist() == [[-0.5, 0.5], [0.5, 0.5]]
    assert step(x).tolist() == [[0, 0], [0.5, 0]]


@pytest.mark.parametrize(('cls', 'factor'), [(BiTSign, 2), (BiTStep, 4)])
def test_scale_starts_from_data_once_and_stays_with_a_checkpoint(cls, factor):
    quantizer = cls(3, -1)
    x = torch.randn(4, 5, 3)
    assert quantizer.needs_calibration
    quantizer.calibrate(x)
    torch.testing.assert_close(quantizer.alpha.data, factor * x.abs().mean())
    loaded = cls(3, -1)
    loaded.load_state_dict(quantizer.state_dict())
    assert not loaded.needs_calibration and torch.equal(loaded(x), quantizer(x))
    # What has been calibrated is not again, whatever is loaded.
    loaded.load_state_dict({}, strict=False)
    assert not loaded.needs_calibration


def test_shift_of_zero_stays_zero_in_calibration():
    layer = BinaryLinear(3, 2, activation=dict(type='BiTSign', shift='zero'))
    assert calibrate_shifts(layer, lambda: layer(torch.rand(5, 3))) == []
    assert layer.activation_quantizer.shift.tolist() == [0, 0, 0] and layer.activation_quantizer.alpha != 1


def test_scale_that_would_be_negative_counts_as_tiny():
    quantizer = BiTSign(1)
    quantizer.alpha.data.fill_(-1.0)
    assert 0 < quantizer(torch.ones(1)) < 1e-4


@pytest.mark.parametrize('quantizer', [BiTSign(1), BiTStep(1), BiTSign(1, bits=2)])
def test_scale_that_became_tiny_can_grow_again(quantizer):
    quantizer.alpha.data.fill_(-1.0)
    quantizer(torch.ones(1)).backward()
    assert quantizer.alpha.grad > 0


def test_two_bits_have_four_levels():
    sign, step = BiTSign(1, bits=2), BiTStep(1, bits=2)
    x = torch.linspace(-5, 5, 41)
    assert sign(x).unique().tolist() == [-2, -1, 0, 1] and step(x).unique().tolist() == [0, 1, 2, 3]
    step.calibrate(x.abs())
    torch.testing.assert_close(step.alpha.item(), 4 * x.abs().mean().item() / 3**0.5)


@pytest.mark.parametrize('bits', [0, 9, 1.5])
def test_bits_out_of_range_are_refused(bits):
    with pytest.raises(ValueError, match='BiTSign: bits=.* must be a whole number from 1 to 8'):
        BiTSign(1, bits=bits)


def test_a_shift_of_another_method_leaves_the_scale_to_be_started():
    layer = BinaryLinear(8, 4, activation=dict(type='BiTSign', shift='mean'))
    other = BinaryLinear(8, 4, activation=dict(type='BinarySign', shift='mean'))
    layer.load_state_dict(other.state_dict(), strict=False)
    assert layer.activation_quantizer.needs_calibration
    layer.load_state_dict(BinaryLinear(8, 4, activation=dict(type='BiTSign', shift='mean')).state_dict())
    assert not layer.activation_quantizer.needs_calibration
