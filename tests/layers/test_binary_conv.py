import copy
import re

import pytest
import torch
from mmcv.cnn import build_conv_layer, fuse_conv_bn
from mmengine.registry import MODELS
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from rebnn_mm.layers import BinaryConv2d, BinaryLayer, BinaryLinear
from rebnn_mm.methods import ReBNNConv2d
from rebnn_mm.registry import list_classes
from tests.tolerances import FLOAT32_ROUNDING

pytestmark = pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')

GEOMETRIES = [
    {'kernel_size': 3, 'padding': 1},
    {'kernel_size': 3, 'stride': 2, 'padding': 1, 'bias': False},
    {'kernel_size': (3, 1), 'stride': (1, 2), 'padding': (1, 0)},
    {'kernel_size': 3, 'dilation': 2, 'padding': 2, 'groups': 4},
    {'kernel_size': 3, 'padding': 'same', 'dilation': 3},
    {'kernel_size': 3, 'padding': 'valid'},
    {'kernel_size': 3, 'padding': 1, 'padding_mode': 'reflect'},
    {'kernel_size': 3, 'padding': (2, 1), 'padding_mode': 'replicate'},
    {'kernel_size': 3, 'padding': 1, 'padding_mode': 'circular'},
    {'kernel_size': 5, 'padding': 2, 'groups': 2},
]


@pytest.mark.parametrize('geometry', GEOMETRIES, ids=str)
@pytest.mark.parametrize('kind', [BinaryConv2d, ReBNNConv2d])
def test_every_argument_of_conv2d_is_honoured(kind, geometry):
    """The layer equals nn.Conv2d with the binary weight on the binary input, in training and in evaluation."""
    torch.manual_seed(0)
    layer = kind(8, 12, activation='BinarySign', **geometry)
    plain = nn.Conv2d(8, 12, **geometry)
    scale = layer.weight.detach().abs().mean(dim=(1, 2, 3), keepdim=True)
    plain.weight.data = scale * torch.where(layer.weight.detach() < 0, -1.0, 1.0)
    if plain.bias is not None:
        plain.bias.data = layer.bias.data
    x = torch.randn(2, 8, 9, 7)
    expected = plain(torch.where(x < 0, -1.0, 1.0))
    for mode in (True, False):
        torch.testing.assert_close(layer.train(mode)(x), expected, atol=10 * FLOAT32_ROUNDING, rtol=0)


@pytest.mark.parametrize('value', [-1, 1])
def test_pad_value_is_what_the_border_sees(value):
    layer = BinaryConv2d(4, 2, 3, padding=1, bias=False, activation='BinarySign', pad_value=value)
    x = torch.where(torch.randn(1, 4, 5, 5) < 0, -1.0, 1.0)
    by_hand = F.conv2d(F.pad(x, (1, 1, 1, 1), value=value), torch.where(layer.weight < 0, -1.0, 1.0))
    by_hand = by_hand * layer.weight.abs().mean(dim=(1, 2, 3)).view(-1, 1, 1)
    with torch.no_grad():
        assert torch.equal(layer.eval()(x), by_hand)


@pytest.mark.parametrize(
    ('kernel', 'stride', 'padding', 'sides'),
    [
        (3, 2, 1, (0, 1, 0, 1)),
        (7, 2, 3, (2, 3, 2, 3)),
        (3, 1, 1, (1, 1, 1, 1)),
        (5, (4, 2), 2, (1, 2, 0, 1)),
        (1, 2, 0, (0, 0, 0, 0)),
    ],
)
@pytest.mark.parametrize('value', [0, 1])
def test_padding_at_the_end_is_what_keras_does(kernel, stride, padding, sides, value):
    layer = BinaryConv2d(
        4, 2, kernel, stride, padding, bias=False, activation='BinarySign', pad_value=value, pad_end=True
    )
    x = torch.where(torch.randn(1, 4, 8, 12) < 0, -1.0, 1.0)
    by_hand = F.conv2d(F.pad(x, sides, value=value), torch.where(layer.weight < 0, -1.0, 1.0), stride=stride)
    by_hand = by_hand * layer.weight.abs().mean(dim=(1, 2, 3)).view(-1, 1, 1)
    with torch.no_grad():
        assert torch.equal(layer.eval()(x), by_hand)
    torch.testing.assert_close(layer.train()(x), by_hand, atol=10 * FLOAT32_ROUNDING, rtol=0)
    if padding:
        at_start = BinaryConv2d(4, 2, kernel, stride, padding, bias=False)
        assert by_hand.shape == at_start(x).shape


@pytest.mark.parametrize('frozen', [False, True])
def test_evaluation_sums_integers(frozen):
    """In evaluation the sum over taps is exact: output over alpha gives whole numbers of the right parity."""
    layer = ReBNNConv2d(64, 8, 3, bias=False, activation='BinarySign').eval().requires_grad_(not frozen)
    with torch.set_grad_enabled(frozen):
        out = layer(torch.randn(1, 64, 6, 6)).double() / layer.alpha.double().view(-1, 1, 1)
    assert (out - out.round()).abs().max() < 1e-4
    assert (out.round().long() % 2 == 0).all()


@pytest.mark.parametrize(('dtype', 'exact'), [(torch.bfloat16, 256), (torch.float16, 2048)])
def test_half_precision_rounds_sums(dtype, exact):
    layer = BinaryConv2d(exact + 1, 1, 1, bias=False, activation='BinarySign').eval().requires_grad_(False)
    layer.weight.fill_(1.0)
    x = torch.ones(1, exact + 1, 1, 1)
    assert layer(x).item() == exact + 1
    with torch.autocast('cpu', dtype):
        assert layer(x).item() == exact


LAYERS = sorted(
    name
    for name in list_classes(BinaryLayer)
    if MODELS.get(name).__module__.startswith(('rebnn_mm.layers.', 'rebnn_mm.methods.'))
)


@pytest.mark.parametrize('name', LAYERS)
def test_evaluation_gives_every_parameter_a_gradient(name):
    torch.manual_seed(0)
    sizes = (8, 4, 3) if name.endswith('Conv2d') else (8, 4)
    layer = MODELS.get(name)(*sizes).eval()
    x = torch.tensor([1, 7, 3]) if name == 'BinaryEmbedding' else torch.randn(2, 8, 5, 8)
    y = layer(x)
    (y * torch.randn_like(y)).sum().backward()
    without = {key for key, p in layer.named_parameters() if p.grad is None or p.grad.abs().sum() == 0}
    assert {key for key in without if '.noise.' not in key} == set()  # there is noise in training only
    with torch.no_grad():
        torch.testing.assert_close(layer(x), y.detach(), atol=10 * FLOAT32_ROUNDING, rtol=0)


def test_unbatched_and_float64_input():
    layer = ReBNNConv2d(4, 4, 3, dtype=torch.float64)
    assert layer(torch.randn(4, 8, 8).double()).shape == (4, 6, 6) and layer.alpha.dtype == torch.float64


def test_stage_one_has_real_weights_and_binary_inputs():
    layer = BinaryConv2d(4, 4, 3, weight=None, activation='BinarySign', bias=False)
    x = torch.randn(1, 4, 6, 6)
    assert (layer.weight_bits, layer.activation_bits) == (32, 1)
    assert torch.equal(layer(x), F.conv2d(torch.where(x < 0, -1.0, 1.0), layer.weight))
    assert list(layer.state_dict()) == ['weight']


@pytest.mark.parametrize('name', [name for name in LAYERS if name != 'BinaryEmbedding'])
def test_every_method_has_a_stage_one(name):
    sizes = (8, 4, 3) if name.endswith('Conv2d') else (8, 4)
    layer = MODELS.get(name)(*sizes, weight=None)
    assert layer.binary and layer.weight_bits == 32 > layer.activation_bits
    assert layer(torch.randn(2, 8, 5, 8)).requires_grad


def test_stage_one_of_rebnn_loads_into_stage_two():
    first = ReBNNConv2d(8, 4, 3, gamma=1e-4, weight=None)
    assert first.alpha is None and first.gamma is None
    result = ReBNNConv2d(8, 4, 3, gamma=1e-4).load_state_dict(first.state_dict(), strict=False)
    assert result.unexpected_keys == []
    assert result.missing_keys == ['weight_quantizer.alpha', 'weight_quantizer.gamma']


def test_layer_without_quantizers_is_real():
    layer = BinaryConv2d(4, 4, 3, weight=None, activation=None)
    assert (layer.binary, layer.real_because) == (False, 'no quantizers')
    layer.weight = nn.Parameter(torch.zeros(4, 4, 3, 3))  # as fuse_conv_bn does
    assert layer(torch.randn(1, 4, 6, 6)).eq(layer.bias.view(-1, 1, 1)).all()


@pytest.mark.parametrize(
    ('args', 'reason'),
    [
        ((3, 8, 7), 'first layer'),
        ((1, 8, 3), 'first layer'),
        ((8, 16, 1, 2), 'shortcut'),
    ],
)
def test_first_layer_and_shortcut_are_plain_convolutions(args, reason):
    layer = ReBNNConv2d(*args)
    assert reason in layer.real_because and not layer.binary and layer.alpha is None and layer.gamma is None
    plain = nn.Conv2d(*args)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(1, args[0], 9, 9)
    for mode in (True, False):
        assert torch.equal(layer.train(mode)(x), plain(x))
    assert [name for name, _ in layer.named_parameters()] == ['weight', 'bias']


def test_rules_can_be_switched_off():
    assert ReBNNConv2d(3, 8, 3, keep_real=False).binary
    assert ReBNNConv2d(8, 16, 1, 2, keep_real=False).binary


def test_other_layers_are_binary():
    for layer in (ReBNNConv2d(8, 8, 1, 2), ReBNNConv2d(8, 16, 1), ReBNNConv2d(16, 8, 1, 2), ReBNNConv2d(8, 16, 3, 2)):
        assert layer.binary


class Block(nn.Module):
    def __init__(self, conv_cfg):
        super().__init__()
        self.conv1 = build_conv_layer(conv_cfg, 8, 8, 3)
        self.downsample = nn.Sequential(nn.AvgPool2d(2), build_conv_layer(conv_cfg, 8, 8, 1))


class Model(nn.Module):
    def __init__(self, **options):
        super().__init__()
        conv_cfg = {'type': 'ReBNNConv2d', **options}
        self.layer1 = nn.Sequential(Block(conv_cfg), Block(conv_cfg))
        self.convs = nn.ModuleDict({'cls': build_conv_layer(conv_cfg, 8, 4, 3)})


def real_names(model):
    return [m.layer_name for m in model.modules() if isinstance(m, ReBNNConv2d) and not m.binary]


def test_layers_learn_their_names_while_the_model_is_built():
    model = Model()
    names = {name: module for name, module in model.named_modules() if isinstance(module, ReBNNConv2d)}
    assert {module.layer_name for module in names.values()} == set(names)
    outer = nn.Module()
    outer.detector = model
    assert outer.detector.convs['cls'].layer_name == 'detector.convs.cls'


def test_modules_of_others_are_not_told_their_names():
    class Tagger(nn.Module):
        def take_name(self, text, language):
            raise AssertionError('has nothing to do with us')

    nn.Sequential(ReBNNConv2d(8, 8, 3), Tagger())


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        ({}, ['layer1.0.downsample.1', 'layer1.1.downsample.1']),
        ({'keep_real': ['convs']}, ['convs.cls']),
        ({'keep_real': ['layer1.0']}, ['layer1.0.conv1', 'layer1.0.downsample.1']),
        ({'keep_real': ['layer1.*.conv1', 'cls']}, ['layer1.0.conv1', 'layer1.1.conv1', 'convs.cls']),
        ({'keep_real': []}, []),
    ],
    ids=str,
)
def test_keep_real_names_layers(options, expected):
    assert real_names(Model(**options)) == expected


class Squares(nn.Module):
    """A detector whose backbone sees the image cut into squares, 12 channels."""

    def __init__(self, channels=12, **options):
        super().__init__()
        conv_cfg = {'type': 'ReBNNConv2d', **options}
        self.neck = build_conv_layer(conv_cfg, 8, 8, 1)
        stem = nn.Sequential(nn.PixelUnshuffle(2), build_conv_layer(conv_cfg, channels, 8, 3))
        self.backbone = nn.Sequential(stem, build_conv_layer(conv_cfg, 8, 8, 3))


def test_the_first_layer_of_a_backbone_is_real_whatever_it_sees():
    model = Squares()
    assert real_names(model) == ['backbone.0.1']
    assert model.backbone[0][1].real_because == 'first layer of the backbone (12 input channels)'
    assert 'backbone.0.1.weight_quantizer.alpha' not in model.state_dict()
    assert real_names(Squares(keep_real=['backbone.0'])) == ['backbone.0.1']
    assert real_names(Squares(keep_real=False)) == []


def test_a_backbone_whose_first_layer_is_known_keeps_the_others_binary():
    model = Squares(3)
    assert real_names(model) == ['backbone.0.1']
    model.backbone = nn.Sequential(build_conv_layer({'type': 'ReBNNConv2d'}, 8, 8, 3), nn.Conv2d(3, 8, 3))
    assert real_names(model) == []


def test_a_copied_model_keeps_its_decisions():
    model = copy.deepcopy(Model())
    assert real_names(model) == real_names(Model())


def test_checkpoint_of_a_real_network_starts_alpha():
    real = nn.Conv2d(8, 4, 3)
    layer = ReBNNConv2d(8, 4, 3)
    result = layer.load_state_dict(real.state_dict(), strict=False)
    assert sorted(result.missing_keys) == [
        'activation_quantizer.shift',
        'weight_quantizer.alpha',
        'weight_quantizer.gamma',
    ]
    assert torch.equal(layer.alpha.data, real.weight.data.abs().mean(dim=(1, 2, 3)))
    assert layer.weight_quantizer.follows_weight and layer.activation_quantizer.needs_calibration


def test_own_checkpoint_keeps_alpha_gamma_and_shift():
    source, target = ReBNNConv2d(8, 4, 3), ReBNNConv2d(8, 4, 3)
    source.alpha.data.fill_(0.7)
    source.gamma.fill_(5e-5)
    source.activation_quantizer.shift.data.fill_(0.3)
    target.load_state_dict(source.state_dict())
    for name, value in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], value), name
    assert not target.weight_quantizer.follows_weight and not target.activation_quantizer.needs_calibration


KINDS = sorted(
    name for name, cls in MODELS.module_dict.items() if isinstance(cls, type) and issubclass(cls, BinaryConv2d)
)


@pytest.mark.parametrize('kind', KINDS)
def test_a_layer_without_memory_takes_the_tensors_of_a_checkpoint(kind):
    source = MODELS.get(kind)(8, 4, 3)
    with torch.device('meta'):
        layer = MODELS.get(kind)(8, 4, 3)
    state = source.state_dict()
    layer.load_state_dict(state, assign=True)
    assert all(value.data_ptr() == state[name].data_ptr() for name, value in layer.state_dict().items())
    assert layer.weight.requires_grad
    x = torch.randn(1, 8, 5, 5)
    assert torch.equal(layer.eval()(x), source.eval()(x))


@pytest.mark.parametrize('bias', [False, True])
@pytest.mark.parametrize('fuse', [fuse_conv_bn, lambda net: fuse_conv_bn_eval(net.conv, net.bn)])
def test_folding_a_norm_is_refused_where_it_happens(fuse, bias):
    net = nn.Sequential()
    net.conv, net.bn = ReBNNConv2d(8, 8, 3, bias=bias), nn.BatchNorm2d(8)
    nn.init.uniform_(net.bn.weight, -1, 1)
    with pytest.raises(
        RuntimeError, match=r"ReBNNConv2d 'conv': is given a bias, as fuse_conv_bn.*load the model again"
    ):
        fuse(net.eval())


def test_other_weights_may_come_with_a_bias():
    conv, other = ReBNNConv2d(8, 8, 3), ReBNNConv2d(8, 8, 3)
    for source in (conv, other):
        conv.weight, conv.bias = nn.Parameter(source.weight.detach().clone()), nn.Parameter(torch.ones(8))
    assert torch.equal(conv.weight, other.weight) and conv.bias.sum() == 8


def test_a_checkpoint_of_a_few_steps_later_may_be_assigned():
    conv = ReBNNConv2d(8, 8, 3)
    later = {name: value + 1e-5 * torch.randn_like(value) for name, value in conv.state_dict().items()}
    conv.load_state_dict(later, assign=True)
    assert all(torch.equal(value, later[name]) for name, value in conv.state_dict().items())


def test_efficient_conv_bn_eval_is_refused():
    conv = ReBNNConv2d(8, 8, 3)
    with pytest.raises(RuntimeError, match='would convolve latent weights. Remove efficient_conv_bn_eval'):
        conv._conv_forward(torch.randn(1, 8, 5, 5), conv.weight, None)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'pad_value': 0.5}, 'pad_value=0.5 must be 0, or -1 or'),
        ({'pad_value': -1, 'padding_mode': 'reflect'}, "pad_value=-1 goes with padding_mode='zeros' only"),
        ({'pad_end': True, 'padding_mode': 'circular'}, 'pad_end=True goes with a number as padding and'),
        ({'pad_end': True, 'padding': 'same'}, "pad_end=True goes with .*padding='same'"),
        ({'dtype': torch.complex64}, 'dtype=torch.complex64 is not supported; a sign needs a real number'),
        ({'keep_real': 'downsample'}, "keep_real='downsample' must be a list of names"),
        (
            {'activation': 'BinarySing'},
            "'BinarySing' is not a registered activation quantizer. Did you mean 'BinarySign'",
        ),
        ({'groups': 3}, 'in_channels must be divisible by groups'),
    ],
)
def test_what_cannot_be_honoured_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ReBNNConv2d(8, 9, 3, **options)


LAYERS = {**list_classes(BinaryConv2d), **list_classes(BinaryLinear)}


@pytest.mark.parametrize(
    'name', [n for n, cls in LAYERS.items() if 'rebnn_mm.' in cls.__module__ and 'ReBNN' not in n]
)
def test_options_that_another_method_left_behind_are_named(name):
    owner, sizes = ('ReBNNConv2d', (8, 8, 3)) if name.endswith('Conv2d') else ('ReBNNLinear', (8, 8))
    sentence = (
        f'{name}: no option gamma, gamma_bounds (of {owner}); remove what is left of the other type or, where a base '
        f"config sets it, add _delete_=True next to type='{name}'."
    )
    with pytest.raises(ValueError, match=f'^{re.escape(sentence)}$'):
        build_conv_layer(dict(type=name, gamma='adaptive', gamma_bounds=None), *sizes)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'gama': 0}, "ReBNNConv2d: no option 'gama'. Did you mean 'gamma'"),
        (
            {'activation': {'type': 'BinarySign', 'bits': 1}},
            r'of type BinarySign: no option bits \(of .*DoReFa',
        ),
    ],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ReBNNConv2d(8, 8, 3, **options)


def test_mmengine_init_cfg_reaches_the_layer():
    from mmengine.model import BaseModule

    class Net(BaseModule):
        def __init__(self):
            super().__init__(init_cfg={'type': 'Constant', 'layer': 'Conv2d', 'val': 0.5})
            self.convs = nn.ModuleList([ReBNNConv2d(8, 8, 3), BinaryConv2d(8, 8, 3), nn.Conv2d(8, 8, 3)])

    net = Net()
    net.init_weights()
    assert all((conv.weight == 0.5).all() for conv in net.convs)
