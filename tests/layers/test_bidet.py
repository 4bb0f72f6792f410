import pytest
import torch
from mmcv.cnn import build_conv_layer
from torch.nn import functional

from rebnn_mm.layers import BiDetConv2d, BiDetLinear
from rebnn_mm.quantizers import BiDetWeight, BinaryApproxSign
from tests.tolerances import FLOAT64_EXACT


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
