import torch
from mmcv.cnn import build_conv_layer
from torch import nn
from torch.nn import functional

from rebnn_mm.functional import sign
from rebnn_mm.layers import FDAConv2d, FDALinear, calibrate_shifts
from rebnn_mm.layers.report import layer_rows
from rebnn_mm.quantizers import FDASign, FDAWeight
from tests.tolerances import FLOAT64_EXACT


def test_conv_cfg_gives_the_methods_quantizers():
    conv = build_conv_layer(dict(type='FDAConv2d'), 4, 6, 3, padding=1)
    assert type(conv) is FDAConv2d
    for layer in (conv, FDALinear(4, 6)):
        assert type(layer.weight_quantizer) is FDAWeight
        assert type(layer.activation_quantizer) is FDASign
        # In a network that was not made for it: a shift, started from data.
        assert layer.activation_quantizer.needs_calibration


@torch.no_grad()
def test_evaluation_convolves_signs_and_training_adds_noise_to_both():
    torch.manual_seed(0)
    conv = FDAConv2d(4, 8, 3, padding=1).double()
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    weight = sign(conv.weight) * conv.weight.abs().mean(dim=(1, 2, 3), keepdim=True)
    plain = functional.conv2d(sign(x), weight, conv.bias, padding=1)
    with_noise = functional.conv2d(
        conv.activation_quantizer(x), conv.weight_quantizer(conv.weight), conv.bias, padding=1
    )
    torch.testing.assert_close(conv(x), with_noise, atol=FLOAT64_EXACT, rtol=0)
    assert 1e-3 < (with_noise - plain).abs().mean() < 0.1 * plain.abs().mean()
    torch.testing.assert_close(conv.eval()(x), plain, atol=FLOAT64_EXACT, rtol=0)


def test_noise_is_no_layer_of_the_network():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), FDAConv2d(8, 8, 3))
    assert [row.name for row in layer_rows(net)] == ['0', '2']
    assert calibrate_shifts(net, lambda: net(torch.randn(2, 3, 8, 8))) == []
    out = net[2].activation_quantizer.eval()(net[1](net[0](torch.randn(2, 3, 8, 8))))
    assert set(out.unique().tolist()) == {-1.0, 1.0}
