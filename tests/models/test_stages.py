import pytest
import torch
from torch import nn

from rebnn_mm.errors import RebnnError
from rebnn_mm.layers import BinaryConv2d, RPReLU
from rebnn_mm.models import BinaryBasicBlock, BinaryReActBlock, BinarySSDVGG, BinaryUnit, BinaryVGGSmall
from rebnn_mm.models.stages import block_style, block_styles, build_stage
from rebnn_mm.registry import BLOCKS

BINARY = dict(type='ReBNNConv2d')


def test_first_block_changes_channels_and_resolution():
    stage = build_stage('react', 4, 8, 3, stride=2, conv_cfg=BINARY)
    assert [(b.conv1.in_channels, b.conv1.stride) for b in stage] == [(4, (2, 2)), (8, (1, 1)), (8, (1, 1))]
    assert stage(torch.randn(1, 4, 6, 6)).shape == (1, 8, 3, 3)


@pytest.mark.parametrize('block', ['react', 'BinaryReActBlock', dict(type='react'), dict(type='BinaryReActBlock')])
def test_every_spelling_of_a_style_gives_the_same_class(block):
    assert type(build_stage(block, 4, 4, 1, stride=1, conv_cfg=BINARY)[0]) is BinaryReActBlock


def test_every_style_is_listed_under_its_short_name():
    styles = block_styles()
    assert {'react', 'plain_cifar', 'real_to_binary'} <= set(styles)
    assert all(text.endswith('.') and len(text) < 119 for text in styles.values())


def test_a_style_registered_elsewhere_is_found_with_its_own_options():
    class HardtanhBlock(BinaryBasicBlock):
        def __init__(self, *args, bound=1.0, **kwargs):
            self.bound = bound
            super().__init__(*args, **kwargs)

        def build_act(self, channels):
            return nn.Hardtanh(-self.bound, self.bound)

    BLOCKS.register_module(name='HardtanhBlockOfThisTest', module=HardtanhBlock)
    try:
        stage = build_stage(
            dict(type='HardtanhBlockOfThisTest', bound=0.5), 4, 4, 1, stride=1, conv_cfg=dict(type='ReBNNConv2d')
        )
    finally:
        BLOCKS.module_dict.pop('HardtanhBlockOfThisTest')
    assert stage(torch.randn(2, 4, 5, 5)).abs().max() == 0.5


class BoundedBlock(BinaryBasicBlock):
    @classmethod
    def build_act(cls, channels, bound=1.0):
        return nn.Hardtanh(-bound, bound)


@pytest.fixture
def bounded():
    BLOCKS.register_module(name='BoundedBlockOfThisTest', module=BoundedBlock)
    yield dict(type='BoundedBlockOfThisTest', bound=0.5)
    BLOCKS.module_dict.pop('BoundedBlockOfThisTest')


def test_options_of_a_style_reach_its_activation_in_every_network(bounded):
    stage = build_stage(bounded, 4, 4, 1, stride=1, conv_cfg=BINARY)
    networks = [stage, BinaryVGGSmall(block=bounded, base_channels=4), BinarySSDVGG(block=bounded, base_channels=2)]
    for network in networks:
        acts = [module for module in network.modules() if isinstance(module, nn.Hardtanh)]
        assert acts and all((act.min_val, act.max_val) == (-0.5, 0.5) for act in acts)


def test_an_unknown_style_gets_the_nearest_and_without_one_the_short_names():
    with pytest.raises(RebnnError, match="block='reacct' is not a registered block style. Did you mean 'react'?"):
        build_stage('reacct', 4, 4, 1, stride=1)
    with pytest.raises(RebnnError, match='style. There are bireal, .*, real_to_binary. A style of yours') as found:
        build_stage('qqq', 4, 4, 1, stride=1)
    assert 'Block' not in str(found.value)  # their classes are registered, too


def unit(style: str, *args, conv_cfg=BINARY, **kwargs) -> BinaryUnit:
    return BinaryUnit(block_style(style)[0], *args, conv_cfg=conv_cfg, **kwargs)


@pytest.mark.parametrize('shortcut', [True, False])
@pytest.mark.parametrize(('stride', 'size'), [(1, (5, 4)), (2, (7, 6)), (2, (75, 75))])
def test_unit_has_the_size_of_a_same_padded_convolution(shortcut, stride, size):
    out = unit('bireal', 4, 8, stride=stride, shortcut=shortcut)(torch.randn(2, 4, *size))
    assert out.shape == (2, 8, *(-(-n // stride) for n in size))


@pytest.mark.parametrize(
    ('style', 'shift', 'act'),
    [
        ('bireal', None, nn.Identity),
        ('react', 'zero', RPReLU),
        ('hardtanh', None, nn.Hardtanh),
        ('relu', 'mean', nn.ReLU),
    ],
)
def test_unit_shift_and_activation_are_those_of_the_style(style, shift, act):
    built = unit(style, 4, 8)
    assert built.conv.activation_quantizer.shift_start == shift
    assert type(built.act) is act


def test_unit_is_norm_of_the_convolution_plus_shortcut():
    torch.manual_seed(0)
    built = unit('hardtanh', 4, 4).eval()
    x = torch.randn(2, 4, 5, 5)
    assert torch.equal(built(x), (built.bn(built.conv(x)) + x).clamp(-1, 1))


def test_unit_without_shortcut_nothing_of_the_input_passes_by():
    built = unit('bireal', 4, 8, stride=2, shortcut=False)
    nn.init.zeros_(built.bn.weight)
    assert built(torch.randn(2, 4, 6, 6)).abs().sum() == 0
    assert [type(m) for m in built.modules() if isinstance(m, nn.Conv2d)] == [type(built.conv)]


def test_unit_strided_shortcut_averages_inside_the_image_only():
    built = unit('bireal', 1, 1, stride=2).eval()
    nn.init.zeros_(built.bn.weight)
    nn.init.ones_(built.downsample[0].weight)
    expected = torch.tensor([[[[2.0, 3.5], [6.5, 8.0]]]])
    torch.testing.assert_close(built(torch.arange(9.0).reshape(1, 1, 3, 3)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(('stride', 'out_channels', 'real'), [(1, 4, 0), (1, 8, 1), (2, 4, 1), (2, 8, 1)])
def test_unit_has_a_real_1x1_convolution_only_where_shapes_change(stride, out_channels, real):
    built = unit('react', 4, out_channels, stride=stride)
    assert [type(m) for m in built.downsample.modules() if isinstance(m, nn.Conv2d)] == [nn.Conv2d] * real
    assert isinstance(built.conv, BinaryConv2d)


@pytest.mark.parametrize('style', ['preact', 'single'])
def test_a_style_for_two_convolutions_is_refused(style):
    with pytest.raises(ValueError, match='is made for two convolutions, and here each stands alone. Use a style with'):
        unit(style, 4, 4)


def test_unit_with_a_real_convolution():
    assert type(unit('relu', 4, 8, conv_cfg=None).conv) is nn.Conv2d
