import pytest
import torch
from torch import nn

from rebnn_mm.layers import ReBNNConv2d
from rebnn_mm.models.blocks import (
    BinaryBasicBlock,
    BinaryBiRealBlock,
    BinaryHardtanhBlock,
    BinaryPreActBlock,
    BinaryReActBlock,
    BinaryReLUBlock,
    BinarySingleShortcutBlock,
)

pytestmark = pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
BINARY = dict(type='ReBNNConv2d')
STYLES = [
    BinaryBasicBlock,
    BinaryBiRealBlock,
    BinaryHardtanhBlock,
    BinaryPreActBlock,
    BinaryReActBlock,
    BinaryReLUBlock,
    BinarySingleShortcutBlock,
]


def without_convolutions(block: BinaryBasicBlock) -> BinaryBasicBlock:
    """Leave only the shortcuts: the norm after each binary convolution gives zero."""
    for norm in (block.bn1, block.bn2):
        nn.init.zeros_(norm.weight)
    return block


@pytest.mark.parametrize('style', STYLES)
@pytest.mark.parametrize(
    ('stride', 'dilation', 'size'), [(1, 1, (5, 4)), (2, 1, (7, 6)), (3, 1, (8, 7)), (1, 2, (6, 5))]
)
def test_output_has_the_size_of_a_same_padded_convolution(style, stride, dilation, size):
    block = style(4, 8, stride=stride, dilation=dilation, conv_cfg=BINARY)
    out = block(torch.randn(2, 4, *size))
    assert out.shape == (2, 8, *(-(-n // stride) for n in size))


@pytest.mark.parametrize('style', [BinaryBasicBlock, BinaryBiRealBlock])
def test_each_convolution_has_its_own_identity_shortcut(style):
    x = torch.randn(2, 4, 5, 5)
    assert torch.equal(without_convolutions(style(4, 4, conv_cfg=BINARY))(x), x)


def test_strided_shortcut_averages_inside_the_image_only():
    block = without_convolutions(BinaryBiRealBlock(1, 1, stride=2, conv_cfg=BINARY)).eval()
    nn.init.ones_(block.downsample[0].weight)
    x = torch.arange(9.0).reshape(1, 1, 3, 3)
    expected = torch.tensor([[[[2.0, 3.5], [6.5, 8.0]]]])
    torch.testing.assert_close(block(x), expected, rtol=1e-4, atol=1e-4)  # eps of BN


@pytest.mark.parametrize(('stride', 'out_channels', 'real'), [(1, 4, 0), (1, 8, 1), (2, 4, 1), (2, 8, 1)])
def test_a_real_1x1_convolution_only_where_shapes_change(stride, out_channels, real):
    block = BinaryReActBlock(4, out_channels, stride=stride, conv_cfg=BINARY)
    shortcuts = [m for m in block.downsample.modules() if isinstance(m, nn.Conv2d)]
    assert [type(m) for m in shortcuts] == [nn.Conv2d] * real


@pytest.mark.parametrize(
    ('style', 'shift'),
    [(BinaryBiRealBlock, None), (BinaryHardtanhBlock, None), (BinaryReActBlock, 'zero'), (BinaryReLUBlock, 'mean')],
)
@pytest.mark.parametrize(
    ('layer', 'expected'), [('BinaryConv2d', 'BinaryApproxSign'), ('XNORConv2d', 'BinarySign'), (ReBNNConv2d, None)]
)
def test_the_method_gives_the_activation_quantizer_and_the_style_its_shift(style, shift, layer, expected):
    block = style(4, 4, conv_cfg=dict(type=layer))
    for conv in (block.conv1, block.conv2):
        assert type(conv.activation_quantizer).__name__ == (expected or 'BinaryApproxSign')
        assert conv.activation_quantizer.shift_start == shift


def test_a_method_that_needs_no_shift_gets_none_behind_a_relu():
    block = BinaryReLUBlock(4, 4, conv_cfg=dict(type='DoReFaConv2d'))
    assert block.conv1.activation_quantizer.shift is None


@pytest.mark.parametrize('style', [BinaryBiRealBlock, BinaryReActBlock])
def test_an_activation_named_by_the_user_wins(style):
    named = style(4, 4, conv_cfg=dict(type='ReBNNConv2d', activation=dict(type='BinarySign')))
    assert type(named.conv1.activation_quantizer).__name__ == 'BinarySign'
    none = style(4, 4, conv_cfg=dict(type='ReBNNConv2d', activation=None))
    assert none.conv1.activation_quantizer is None


def test_layers_of_others_are_built_as_they_are():
    block = BinaryReActBlock(4, 4, conv_cfg=dict(type='Conv2d', padding_mode='reflect'))
    assert type(block.conv1) is nn.Conv2d
    assert block.conv1.padding_mode == 'reflect'


def test_config_is_not_changed():
    conv_cfg = dict(type='ReBNNConv2d')
    BinaryReActBlock(4, 4, conv_cfg=conv_cfg)
    assert conv_cfg == dict(type='ReBNNConv2d')


def test_checkpointing_changes_no_gradient():
    gradients = []
    for with_cp in (False, True):
        torch.manual_seed(0)
        block = BinaryReActBlock(4, 8, stride=2, conv_cfg=BINARY, with_cp=with_cp)
        x = torch.randn(2, 4, 6, 6, requires_grad=True)
        block(x).square().sum().backward()
        gradients.append([x.grad, *(p.grad for p in block.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert any(g.abs().sum() > 0 for g in gradients[0])
