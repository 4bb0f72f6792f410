import pytest
import torch
from mmcv.cnn import build_conv_layer
from torch.nn import functional

from rebnn_mm.functional import sign
from rebnn_mm.layers import RBNNConv2d, RBNNLinear
from rebnn_mm.quantizers import RBNNSign, RBNNWeight
from tests.tolerances import FLOAT64_EXACT


def test_conv_cfg_gives_the_methods_quantizers():
    conv = build_conv_layer(dict(type='RBNNConv2d'), 4, 6, 3, padding=1)
    assert type(conv) is RBNNConv2d
    for layer in (conv, RBNNLinear(4, 6)):
        assert type(layer.weight_quantizer) is RBNNWeight
        assert type(layer.activation_quantizer) is RBNNSign
        # Its input is centred anyway.
        assert layer.activation_quantizer.shift is None


@torch.no_grad()
@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize('groups', [1, 2, 4])
def test_convolves_the_signs_of_rotated_filters(training, groups):
    torch.manual_seed(0)
    conv = RBNNConv2d(4, 8, 3, padding=1, groups=groups).double().train(training)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64).relu()
    quantizer = conv.weight_quantizer
    filters = conv.weight - conv.weight.mean(dim=(1, 2, 3), keepdim=True)
    folded = filters.reshape(8, *quantizer.sides)
    turned = torch.einsum('ji,ojk,kl->oil', quantizer.left, folded, quantizer.right).view_as(filters)
    weight = sign(turned) * conv.weight.abs().mean(dim=(1, 2, 3), keepdim=True)
    binary_input = sign(x - x.mean(dim=(1, 2, 3), keepdim=True))
    assert binary_input.unique().tolist() == [-1.0, 1.0], 'both signs behind a ReLU'
    expected = functional.conv2d(binary_input, weight, conv.bias, padding=1, groups=groups)
    # alpha starts in float32.
    torch.testing.assert_close(conv(x), expected, atol=1e-6, rtol=0)


def test_alpha_is_started_from_the_loaded_weight_and_the_rotation_is_kept():
    source, target = RBNNConv2d(4, 8, 3), RBNNConv2d(4, 8, 3)
    target.load_state_dict({name: source.state_dict()[name] for name in ('weight', 'bias')}, strict=False)
    mean = source.weight.abs().mean(dim=(1, 2, 3))
    torch.testing.assert_close(target.weight_quantizer.alpha, mean, atol=FLOAT64_EXACT, rtol=0)
    source.weight_quantizer.alpha.data.fill_(0.5)
    target.load_state_dict(source.state_dict())
    x = torch.randn(1, 4, 5, 5)
    assert torch.equal(target.eval()(x), source.eval()(x))
    assert target.weight_quantizer.alpha.eq(0.5).all()
