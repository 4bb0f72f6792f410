import pytest
import torch
from torch import nn

from rebnn_mm.layers import BinaryConv2d, BinaryRPReLU
from rebnn_mm.models import BinaryUnit
from rebnn_mm.models.blocks import build_stage

BINARY = dict(type='ReBNNConv2d')


def unit(style: str, *args, conv_cfg=BINARY, **kwargs) -> BinaryUnit:
    return BinaryUnit(build_stage(style, 4, 4, 1, stride=1, conv_cfg=BINARY)[0], *args, conv_cfg=conv_cfg, **kwargs)


@pytest.mark.parametrize('shortcut', [True, False])
@pytest.mark.parametrize(('stride', 'size'), [(1, (5, 4)), (2, (7, 6)), (2, (75, 75))])
def test_output_has_the_size_of_a_same_padded_convolution(shortcut, stride, size):
    out = unit('bireal', 4, 8, stride=stride, shortcut=shortcut)(torch.randn(2, 4, *size))
    assert out.shape == (2, 8, *(-(-n // stride) for n in size))


@pytest.mark.parametrize(
    ('style', 'shift', 'act'),
    [
        ('bireal', None, nn.Identity),
        ('react', 'zero', BinaryRPReLU),
        ('hardtanh', None, nn.Hardtanh),
        ('relu', 'mean', nn.ReLU),
    ],
)
def test_shift_and_activation_are_those_of_the_style(style, shift, act):
    built = unit(style, 4, 8)
    assert built.conv.activation_quantizer.shift_start == shift
    assert type(built.act) is act


def test_output_is_norm_of_the_convolution_plus_shortcut():
    torch.manual_seed(0)
    built = unit('hardtanh', 4, 4).eval()
    x = torch.randn(2, 4, 5, 5)
    assert torch.equal(built(x), (built.bn(built.conv(x)) + x).clamp(-1, 1))


def test_without_shortcut_nothing_of_the_input_passes_by():
    built = unit('bireal', 4, 8, stride=2, shortcut=False)
    nn.init.zeros_(built.bn.weight)
    assert built(torch.randn(2, 4, 6, 6)).abs().sum() == 0
    assert [type(m) for m in built.modules() if isinstance(m, nn.Conv2d)] == [type(built.conv)]


def test_strided_shortcut_averages_inside_the_image_only():
    built = unit('bireal', 1, 1, stride=2).eval()
    nn.init.zeros_(built.bn.weight)
    nn.init.ones_(built.downsample[0].weight)
    expected = torch.tensor([[[[2.0, 3.5], [6.5, 8.0]]]])
    torch.testing.assert_close(built(torch.arange(9.0).reshape(1, 1, 3, 3)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(('stride', 'out_channels', 'real'), [(1, 4, 0), (1, 8, 1), (2, 4, 1), (2, 8, 1)])
def test_a_real_1x1_convolution_only_where_shapes_change(stride, out_channels, real):
    built = unit('react', 4, out_channels, stride=stride)
    assert [type(m) for m in built.downsample.modules() if isinstance(m, nn.Conv2d)] == [nn.Conv2d] * real
    assert isinstance(built.conv, BinaryConv2d)


@pytest.mark.parametrize('style', ['preact', 'single'])
def test_a_style_for_two_convolutions_is_refused(style):
    with pytest.raises(ValueError, match='is made for two convolutions, and here each stands alone. Use a style with'):
        unit(style, 4, 4)


def test_real_convolution():
    assert type(unit('relu', 4, 8, conv_cfg=None).conv) is nn.Conv2d
