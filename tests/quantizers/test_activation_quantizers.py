"""Every activation quantizer, by the same tests."""

import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.quantizers import ActivationQuantizer, BinaryRSign, build_activation_quantizer
from tests.tolerances import FLOAT64_EXACT

NAMES = sorted(
    name
    for name, cls in MODELS.module_dict.items()
    if isinstance(cls, type) and issubclass(cls, ActivationQuantizer) and cls.__module__.startswith('rebnn_mm.')
)

DERIVATIVES = {
    'BinarySign': lambda x: (x.abs() <= 1).double(),
    'BinaryApproxSign': lambda x: (2 - 2 * x.abs()).clamp(min=0),
    'BinaryRSign': lambda x: (2 - 2 * x.abs()).clamp(min=0),
}


@pytest.mark.parametrize('name', NAMES)
class TestEveryActivationQuantizer:
    def test_two_values(self, name):
        quantizer = build_activation_quantizer(name, 4)
        special = torch.tensor([0.0, -0.0, 1e-45, -1e-45, float('nan'), 2.0, -2.0, 0.5]).view(1, 4, 2, 1)
        assert set(quantizer(special).unique().tolist()) == {-1.0, 1.0}
        assert quantizer(torch.zeros(1, 4, 1, 1)).eq(1).all()

    def test_gradient_is_the_closed_form(self, name):
        quantizer = build_activation_quantizer(name, 4).double()
        x = (torch.linspace(-2, 2, 24, dtype=torch.float64)).view(2, 4, 3).requires_grad_()
        upstream = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        (quantizer(x) * upstream).sum().backward()
        expected = upstream * DERIVATIVES[name](x.detach())
        torch.testing.assert_close(x.grad, expected, atol=FLOAT64_EXACT, rtol=0)

    def test_state_round_trip(self, name):
        quantizer = build_activation_quantizer(name, 4)
        for parameter in quantizer.parameters():
            parameter.data.normal_()
        other = build_activation_quantizer(name, 4)
        other.load_state_dict(quantizer.state_dict())
        x = torch.randn(2, 4, 5, 5)
        assert torch.equal(other(x), quantizer(x)) and quantizer.bits == 1

    def test_autocast_binarises_without_changing_a_sign(self, name):
        quantizer = build_activation_quantizer(name, 4)
        x = torch.randn(2, 4, 5, 5)
        with torch.autocast('cpu', torch.bfloat16):
            assert torch.equal(quantizer(x), quantizer(x.float()))


def test_rsign_shift_gradient_and_channel_dim():
    conv, linear = BinaryRSign(3).double(), BinaryRSign(3, channel_dim=-1).double()
    shift = torch.tensor([0.5, -0.5, 0.1]).double()
    conv.shift.data, linear.shift.data = shift.clone(), shift.clone()
    x = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0)).double()
    conv(x).sum().backward()
    linear(x.transpose(1, 2)).sum().backward()
    moved = x + shift.view(1, 3, 1)
    expected = (2 - 2 * moved.abs()).clamp(min=0).sum(dim=(0, 2))
    torch.testing.assert_close(conv.shift.grad, expected, atol=FLOAT64_EXACT, rtol=0)
    torch.testing.assert_close(linear.shift.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_rsign_calibrates_to_the_channel_means_and_not_after_a_checkpoint():
    quantizer = BinaryRSign(3, init='mean')
    x = torch.rand(4, 3, 5, 5)
    assert quantizer.needs_calibration
    quantizer.calibrate(x)
    torch.testing.assert_close(-quantizer.shift.data, x.mean(dim=(0, 2, 3)))
    loaded = BinaryRSign(3, init='mean')
    loaded.load_state_dict(quantizer.state_dict())
    assert not loaded.needs_calibration and not BinaryRSign(3, init='zero').needs_calibration


def test_unknown_init_is_refused():
    with pytest.raises(ValueError, match="init='median' is unknown; use 'zero' or 'mean'"):
        BinaryRSign(3, init='median')
