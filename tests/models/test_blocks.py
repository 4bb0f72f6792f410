import gc
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

from rebnn_mm.layers import RPReLU
from rebnn_mm.methods import ReBNNConv2d
from rebnn_mm.models import block_styles
from rebnn_mm.models.blocks import (
    BLOCKS,
    BinaryAdaBinBlock,
    BinaryBasicBlock,
    BinaryBiRealBlock,
    BinaryHardtanhBlock,
    BinaryPreActBlock,
    BinaryReActBlock,
    BinaryReLUBlock,
    BinaryReSTEBlock,
    BinarySingleReSTEBlock,
    BinarySingleShortcutBlock,
    PlainCIFARBlock,
    RealToBinaryBlock,
)
from rebnn_mm.models.shortcuts import SHORTCUTS
from tests.tolerances import FLOAT64_EXACT

pytestmark = pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
BINARY = dict(type='ReBNNConv2d')
ADABIN = dict(type='BinaryConv2d', weight='AdaBinWeight', activation='AdaBinActivation')
STYLES = [
    BinaryBasicBlock,
    BinaryBiRealBlock,
    BinaryHardtanhBlock,
    BinaryPreActBlock,
    BinaryReActBlock,
    BinaryReLUBlock,
    BinaryReSTEBlock,
    BinarySingleReSTEBlock,
    BinarySingleShortcutBlock,
    RealToBinaryBlock,
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


def test_bireal_has_no_activation_module_and_no_parameters_beyond_convolutions_and_norms():
    block = BinaryBiRealBlock(4, 8, stride=2, conv_cfg=BINARY)
    assert isinstance(block.act1, nn.Identity)
    assert isinstance(block.act2, nn.Identity)
    owners = {name.split('.')[0] for name, _ in block.named_parameters()}
    assert owners == {'conv1', 'bn1', 'conv2', 'bn2', 'downsample'}


def test_bireal_warns_that_a_real_block_would_be_linear():
    with pytest.warns(UserWarning, match="conv_cfg=None the block is linear.*block='react'"):
        BinaryBiRealBlock(4, 4)


@pytest.mark.parametrize('conv_cfg', [BINARY, dict(type='BinaryConv2d', weight=None)])
def test_bireal_does_not_warn_while_the_input_is_binarized(conv_cfg):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        BinaryBiRealBlock(4, 4, conv_cfg=conv_cfg)


def test_rprelu_follows_each_addition():
    block = BinaryReActBlock(4, 4, conv_cfg=BINARY)
    assert [type(act) for act in (block.act1, block.act2)] == [RPReLU, RPReLU]
    torch.nn.init.zeros_(block.bn1.weight)
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.randn(2, 4, 3, 3)
    assert torch.equal(block(x), block.act2(block.act1(x)))


def test_react_shift_starts_at_zero_and_asks_for_no_data():
    block = BinaryReActBlock(4, 4, conv_cfg=BINARY)
    for conv in (block.conv1, block.conv2):
        assert not conv.activation_quantizer.needs_calibration
        assert torch.equal(conv.activation_quantizer.shift.data, torch.zeros(4))


def test_plain_cifar_is_the_written_out_network():
    torch.manual_seed(0)
    block = PlainCIFARBlock(4, 8, stride=2).double().eval()
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    scale = (1 + 1e-5) ** -0.5
    y = functional.relu(functional.conv2d(x, block.conv1.weight, stride=2, padding=1) * scale)
    z = functional.conv2d(y, block.conv2.weight, padding=1) * scale
    expected = functional.relu(z + functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)))
    torch.testing.assert_close(block(x), expected, atol=FLOAT64_EXACT, rtol=0)


def test_plain_cifar_holds_nothing_but_two_convolutions_and_norms():
    names = {name.split('.')[0] for name, _ in PlainCIFARBlock(4, 8, stride=2).named_parameters()}
    assert names == {'conv1', 'bn1', 'conv2', 'bn2'}


def two_values(x, centre, distance):
    return centre + distance * torch.where(x < centre, -1.0, 1.0).to(x.dtype)


def test_adabin_is_the_written_out_network():
    torch.manual_seed(0)
    block = BinaryAdaBinBlock(4, 8, stride=2, conv_cfg=ADABIN).double().eval()
    for conv in (block.conv1, block.conv2):
        conv.activation_quantizer.beta.data.fill_(0.2)
        conv.activation_quantizer.alpha.data.fill_(0.6)
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)

    def convolved(conv, x, stride):
        w = conv.weight
        mean, deviation = w.mean((1, 2, 3), keepdim=True), w.std((1, 2, 3), correction=0, keepdim=True)
        x = functional.pad(two_values(x, 0.2, 0.6), (1, 1, 1, 1))
        return functional.conv2d(x, two_values(w, mean, deviation), stride=stride) / (1 + 1e-5) ** 0.5

    shortcut = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2))
    y = functional.leaky_relu(convolved(block.conv1, x, 2) + shortcut, 0.25)
    z = functional.leaky_relu(convolved(block.conv2, y, 1) + y, 0.25)
    torch.testing.assert_close(block(x), z, atol=100 * FLOAT64_EXACT, rtol=0)


def test_adabin_trains_everything():
    block = BinaryAdaBinBlock(4, 4, conv_cfg=ADABIN)
    block(torch.randn(2, 4, 5, 5)).square().mean().backward()
    assert all(parameter.grad is not None for parameter in block.parameters())
    assert block.conv1.weight.grad.abs().sum() > 0


@pytest.mark.parametrize('style', [BinaryReSTEBlock, BinarySingleReSTEBlock])
def test_reste_is_the_written_out_network(style):
    torch.manual_seed(0)
    block = style(4, 4, conv_cfg=dict(type='ReSTEConv2d')).double().eval()
    for norm in (block.bn1, block.bn2):
        norm.running_mean.uniform_(-1, 1)
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)

    def behind_norm(conv, norm, x):
        w = conv.weight
        signs = [torch.where(t < 0, -1.0, 1.0).double() for t in (x, w)]
        y = functional.conv2d(*signs, padding=1) * w.abs().mean()
        return (functional.relu(y) - norm.running_mean.view(-1, 1, 1)) / (1 + 1e-5) ** 0.5

    y = behind_norm(block.conv1, block.bn1, x) + (x if style is BinaryReSTEBlock else 0)
    z = behind_norm(block.conv2, block.bn2, y) + (y if style is BinaryReSTEBlock else x)
    torch.testing.assert_close(block(x), z, atol=100 * FLOAT64_EXACT, rtol=0)


@pytest.mark.parametrize('binary', [True, False])
def test_real_to_binary_is_the_written_out_network(binary):
    """With signs, and in the first stage with tanh in their place."""
    torch.manual_seed(0)
    block = RealToBinaryBlock(8, 16, stride=2, conv_cfg=dict(type='BNNConv2d') if binary else None).double().eval()
    for norm in (block.bn1, block.bn2):
        norm.running_mean.uniform_(-1, 1)
    x = torch.randn(2, 8, 6, 4, dtype=torch.float64)

    def behind_norm(norm, conv, gate, x, stride):
        u = (x - norm.running_mean.view(-1, 1, 1)) / (1 + 1e-5) ** 0.5
        inner = (u.mean(dim=(2, 3)) @ gate.squeeze.weight.flatten(1).T).clamp(min=0)
        factor = 1 / (1 + torch.exp(-inner @ gate.excite.weight.flatten(1).T))
        values, weight = (
            ([torch.where(t < 0, -1.0, 1.0).double() for t in (u, conv.weight)])
            if binary
            else (
                u.tanh(),
                conv.weight,
            )
        )
        y = factor[:, :, None, None] * functional.conv2d(values, weight, stride=stride, padding=1)
        return torch.where(y < 0, 0.25 * y, y)

    shortcut = functional.conv2d(functional.avg_pool2d(x, 2), block.downsample[0].weight) / (1 + 1e-5) ** 0.5
    y = behind_norm(block.bn1, block.conv1, block.gate1, x, 2) + shortcut
    z = behind_norm(block.bn2, block.conv2, block.gate2, y, 1) + y
    torch.testing.assert_close(block(x), z, atol=100 * FLOAT64_EXACT, rtol=0)


def test_real_to_binary_trains_everything():
    torch.manual_seed(0)
    block = RealToBinaryBlock(16, 16, conv_cfg=dict(type='BNNConv2d'))
    block(torch.randn(4, 16, 5, 5)).square().mean().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in block.parameters())


@pytest.mark.parametrize('style', [BinaryAdaBinBlock, PlainCIFARBlock])
def test_a_padded_shortcut_draws_no_random_numbers(style):
    """The generator stands where the two 3x3 convolutions left it."""
    torch.manual_seed(0)
    style(4, 8, stride=2)
    after_block = torch.rand(1)
    torch.manual_seed(0)
    nn.Conv2d(4, 8, 3, bias=False), nn.Conv2d(8, 8, 3, bias=False)
    assert torch.equal(torch.rand(1), after_block)


def test_a_style_is_asked_without_an_instance():
    assert BinaryReActBlock.with_activation(BINARY) == dict(
        BINARY, activation=dict(type='BinaryApproxSign', shift='zero')
    )
    assert isinstance(BinaryReActBlock.build_act(4), RPReLU)


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.MissingHookWarning')
@pytest.mark.parametrize('autocast', [None, torch.bfloat16])
@pytest.mark.parametrize('memory', ['sums', 'recompute'])
@pytest.mark.parametrize('style', list(block_styles()))
def test_memory_changes_neither_values_nor_gradients_nor_statistics(style, memory, autocast):
    def step(kept):
        torch.manual_seed(0)
        block = BLOCKS.get(style)(16, 32, stride=2, conv_cfg=dict(type='ReBNNConv2d', memory=kept))
        x = torch.randn(3, 16, 9, 8).requires_grad_()
        with torch.autocast('cpu', autocast, enabled=autocast is not None):
            y = block(x)
        y.backward(torch.randn_like(y))
        return [y, x.grad, *(p.grad for p in block.parameters()), *block.buffers()]

    for ours, theirs in zip(step(memory), step('plain'), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.MissingHookWarning')
@pytest.mark.parametrize(('memory', 'sums'), [('sums', 2), ('recompute', 0)])
def test_a_block_keeps_its_input_and_two_bytes_for_each_sum(memory, sums):
    block = BLOCKS.get('react')(16, 16, conv_cfg=dict(type='ReBNNConv2d', memory=memory))
    own = {t.data_ptr() for t in (*block.parameters(), *block.buffers())}
    kept = {}
    x = torch.randn(2, 16, 8, 8, requires_grad=True)
    before = {id(t) for t in integers_in_memory()}
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.setdefault(t.data_ptr(), t), lambda t: t):
        y = block(x)
    assert sum(t.nbytes for pointer, t in kept.items() if pointer not in own) == 4 * x.numel()
    found = [t.nbytes for t in integers_in_memory() if id(t) not in before]
    assert y.requires_grad and found == sums * [2 * x.numel()]


def integers_in_memory():
    gc.collect()
    return [t for t in gc.get_objects() if type(t) is torch.Tensor and t.dtype == torch.int16]


@pytest.mark.parametrize('name', SHORTCUTS)
def test_shortcut_is_an_option_of_every_style(name):
    """The released networks of a method differ from each other in it."""
    block = without_convolutions(BinaryBiRealBlock(2, 4, stride=2, downsample=name, conv_cfg=BINARY)).eval()
    x = torch.randn(1, 2, 6, 4)
    small = functional.avg_pool2d(x, 2) if 'pooled' in name else x[:, :, ::2, ::2]
    if 'padded' in name:
        expected = functional.pad(small, (0, 0, 0, 0, 1, 1))
    else:
        expected = functional.conv2d(small, block.downsample[0].weight) / (1 + 1e-5) ** 0.5
    torch.testing.assert_close(block(x), expected)
    same = BinaryBiRealBlock(4, 4, downsample=name, conv_cfg=BINARY)
    assert not [m for m in same.downsample.modules() if isinstance(m, nn.Conv2d)]


def test_unknown_shortcut_is_refused():
    with pytest.raises(ValueError, match="downsample='none' is unknown; use one of pooled, padded, pooled_"):
        BinaryBiRealBlock(2, 4, downsample='none', conv_cfg=BINARY)
