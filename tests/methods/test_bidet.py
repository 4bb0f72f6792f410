import pytest
import torch
from mmcv.cnn import build_conv_layer
from torch.nn import functional

from rebnn_mm.methods import BiDetConv2d, BiDetLinear, BiDetWeight
from rebnn_mm.quantizers import BinaryApproxSign, build_weight_quantizer
from tests.tolerances import FLOAT64_EXACT

SHAPE = (5, 4, 3, 3)


def weight(seed=0):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 1.2


def test_forward_and_gradient_by_hand():
    w = torch.tensor([[0.5, -2.0, 0.5], [1.0, 1.0, -4.0]], dtype=torch.float64, requires_grad=True)
    out = BiDetWeight((2, 3))(w)
    assert out.tolist() == [[1.0, -1.0, 1.0], [2.0, 2.0, -2.0]]
    upstream = torch.tensor([[1.0, 2.0, 4.0], [0.0, 3.0, 0.0]], dtype=torch.float64)
    (out * upstream).sum().backward()
    # alpha * G + sign(w) / 3 * sum(G * sign(w)), which is 3 in both channels.
    assert w.grad.tolist() == [[2.0, 1.0, 5.0], [1.0, 7.0, -1.0]]


def test_gradient_is_the_closed_form():
    w = weight().requires_grad_()
    upstream = weight(1)
    (BiDetWeight(SHAPE)(w) * upstream).sum().backward()
    signs = torch.where(w.detach() < 0, -1.0, 1.0).double()
    scale = w.detach().abs().mean(dim=(1, 2, 3), keepdim=True)
    through_scale = signs * (upstream * signs).mean(dim=(1, 2, 3), keepdim=True)
    assert (w.abs() > 1).any(), 'the identity estimator is to be seen outside of one'
    torch.testing.assert_close(w.grad, scale * upstream + through_scale, atol=FLOAT64_EXACT, rtol=0)


def test_scale_part_is_the_derivative_of_the_mean_magnitude():
    """Along a direction that keeps all signs, the finite difference sees the scale only."""
    w, upstream, step = weight(), weight(1), 1e-6
    direction = w.sign() * w.abs().clamp(max=0.1)
    loss = lambda at: (BiDetWeight(SHAPE)(at) * upstream).sum()  # noqa: E731
    measured = (loss(w + step * direction) - loss(w - step * direction)) / (2 * step)
    signs = w.sign()
    through_scale = signs * (upstream * signs).mean(dim=(1, 2, 3), keepdim=True)
    torch.testing.assert_close(measured, (through_scale * direction).sum(), atol=1e-7, rtol=0)


def test_two_values_per_channel_and_zero_is_plus_in_both_passes():
    w = weight()
    w[:, 0, 0, 0], w[:, 0, 0, 1] = 0.0, -0.0
    w.requires_grad_()
    out = BiDetWeight(SHAPE)(w)
    for channel in out.detach():
        values = channel.unique()
        assert len(values) == 2 and values[0] == -values[1]
    assert (out[:, 0, 0, :2] > 0).all()
    out.sum().backward()
    counted = torch.where(w.detach() < 0, -1.0, 1.0).double().mean(dim=(1, 2, 3))
    scale = w.detach().abs().mean(dim=(1, 2, 3))
    torch.testing.assert_close(w.grad[:, 0, 0, 0], scale + counted, atol=FLOAT64_EXACT, rtol=0)


def test_codes_are_the_training_weight():
    codes, factor = BiDetWeight(SHAPE).codes(weight())
    assert set(codes.unique().tolist()) == {-1.0, 1.0}
    product = codes * factor.view(-1, 1, 1, 1)
    torch.testing.assert_close(BiDetWeight(SHAPE)(weight()), product, atol=FLOAT64_EXACT, rtol=0)


def test_no_state_and_found_by_name():
    quantizer = build_weight_quantizer('BiDetWeight', SHAPE)
    assert type(quantizer) is BiDetWeight and quantizer.bits == 1
    assert dict(quantizer.state_dict()) == {}
    quantizer.load_state_dict({})
    assert torch.equal(quantizer(weight()), BiDetWeight(SHAPE)(weight()))


def signs(x):
    return torch.where(x < 0, -1.0, 1.0).to(x.dtype)


@pytest.mark.parametrize('training', [True, False])
def test_border_is_minus_one(training):
    torch.manual_seed(0)
    conv = BiDetConv2d(4, 6, 3, padding=1, activation='BinaryApproxSign').double().train(training)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    weight = signs(conv.weight) * conv.weight.abs().mean(dim=(1, 2, 3), keepdim=True)
    expected = functional.conv2d(functional.pad(signs(x), (1, 1, 1, 1), value=-1.0), weight, conv.bias)
    torch.testing.assert_close(conv(x), expected, atol=FLOAT64_EXACT, rtol=0)


def test_conv_cfg_gives_the_methods_quantizers():
    conv = build_conv_layer(dict(type='BiDetConv2d'), 4, 6, 3, padding=1)
    assert type(conv) is BiDetConv2d and conv.pad_value == -1
    for layer in (conv, BiDetLinear(4, 6)):
        assert type(layer.weight_quantizer) is BiDetWeight
        assert type(layer.activation_quantizer) is BinaryApproxSign
        # In a network that was not made for it: a shift, started from data.
        assert layer.activation_quantizer.needs_calibration


def test_pad_value_can_be_chosen():
    assert build_conv_layer(dict(type='BiDetConv2d', pad_value=0), 4, 6, 3).pad_value == 0
