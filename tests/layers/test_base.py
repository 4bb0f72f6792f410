"""What binary layers keep for the backward pass changes neither values nor gradients."""

import copy
import math

import pytest
import torch
from mmengine.registry import MODELS
from torch import nn
from torch.nn import functional

from rebnn_mm.functional import native
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.layers.memory import MEMORY, memory_of
from rebnn_mm.quantizers import MissingHookWarning, Values
from rebnn_mm.quantizers.shared import BinaryMeanScaleWeight, BinarySign
from tests.tolerances import FLOAT32_ROUNDING

METHODS = [
    *('ReBNN', 'BNN', 'XNOR', 'DoReFa', 'BiReal', 'RBNN', 'ReCU', 'ReAct', 'FDA', 'BiDet'),
    *('IRNet', 'ReSTE', 'OvSW', 'BiPer', 'SiMaN'),
]
CONVS = [f'{name}Conv2d' for name in METHODS]
LINEARS = [
    dict(type='ReBNNLinear'),
    dict(type='BinaryLinear', weight='BiBERTWeight', activation='BinarySign'),
    dict(type='BinaryLinear', weight='BiTWeight', activation='BiTSign'),
    dict(type='BinaryLinear', weight='TWNWeight', activation='TernaryBERTActivation'),
    dict(type='BinaryLinear', weight='Q8BERTWeight', activation='Q8BERTActivation'),
]
OPTIONS = [
    {},
    dict(groups=2, bias=True, stride=2),
    dict(pad_value=-1),
    dict(padding_mode='reflect', bias=True),
    dict(padding='same', dilation=2, kernel_size=2),
    dict(weight=None),
]
pytestmark = pytest.mark.filterwarnings('ignore', category=MissingHookWarning)


def outcome(layer, x, autocast=None):
    """Output, gradients and buffers of one training step."""
    layer, x = copy.deepcopy(layer), x.clone().requires_grad_()
    with torch.autocast('cpu', autocast, enabled=autocast is not None):
        y = layer(x)
    torch.manual_seed(3)
    y.backward(torch.randn_like(y))
    return [y.detach(), x.grad, *(p.grad for p in layer.parameters()), *layer.buffers()]


def with_memory(layer, memory):
    layer = copy.deepcopy(layer)
    for module in layer.modules():
        if hasattr(module, 'memory'):
            module.memory = memory
    return layer


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b)


def random_conv(name, **options):
    torch.manual_seed(0)
    sizes = dict(kernel_size=3, padding=1, bias=False)
    conv = MODELS.build(dict(type=name, in_channels=8, out_channels=6, **{**sizes, **options}))
    for parameter in conv.parameters():
        parameter.data.add_(0.1 * torch.rand_like(parameter))
    return conv, torch.randn(3, 8, 7, 6)


def test_levels_train_with_the_values_of_evaluation_but_for_rounding():
    conv, x = random_conv('DoReFaConv2d')
    with torch.no_grad():
        expected = copy.deepcopy(conv).eval()(x)
    torch.testing.assert_close(conv(x).detach(), expected, atol=FLOAT32_ROUNDING * 10, rtol=0)


def kept_bytes(layer, x):
    """What the backward pass of a layer keeps, without its parameters and input."""
    own = {t.untyped_storage().data_ptr() for t in (x, *layer.parameters())}
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.update({t.untyped_storage().data_ptr(): t.nbytes}) or t, lambda t: t
    ):
        y = layer(x.requires_grad_())
    return sum(size for start, size in kept.items() if start not in own), y


def test_a_convolution_keeps_bits():
    conv, x = random_conv('BNNConv2d')
    size, _ = kept_bytes(conv, x)
    # One bit of each input for the product, one for its estimator, one of each weight; the shift's sum is not kept.
    assert size <= 2 * x.numel() / 8 + conv.weight.numel() / 8 + 64


@pytest.mark.parametrize('options', OPTIONS, ids=str)
@pytest.mark.parametrize('autocast', [None, torch.bfloat16])
def test_with_every_option(options, autocast):
    conv, x = random_conv('ReBNNConv2d', **options)
    assert_same(outcome(conv, x, autocast), outcome(with_memory(conv, 'plain'), x, autocast))


@pytest.mark.parametrize('cfg', LINEARS, ids=str)
def test_a_linear_layer_gives_the_same(cfg):
    torch.manual_seed(0)
    linear, x = MODELS.build(dict(cfg, in_features=12, out_features=5)), torch.randn(2, 7, 12)
    assert_same(outcome(linear, x), outcome(with_memory(linear, 'plain'), x))


@pytest.mark.parametrize('name', [name for name in CONVS if not name.startswith(('FDA', 'DoReFa'))])
def test_training_gives_the_values_of_evaluation(name):
    conv, x = random_conv(name)
    trained = conv(x).detach()
    with torch.no_grad():
        assert torch.equal(trained, conv.eval()(x))
    assert torch.equal(trained, conv(x).detach()), 'evaluation with gradients'


@pytest.mark.parametrize('options', OPTIONS[:3], ids=str)
def test_with_and_without_compiled_kernels(options, monkeypatch):
    conv, x = random_conv('ReActConv2d', **options)
    ours = outcome(conv, x)
    monkeypatch.setattr(native, 'library', lambda: None)
    assert_same(ours, outcome(conv, x))


def test_a_shared_layer_and_an_input_that_is_used_twice():
    class Twice(nn.Module):
        def __init__(self, conv):
            super().__init__()
            self.conv = conv

        def forward(self, x):
            return self.conv(functional.max_pool2d(x, 2)) + functional.max_pool2d(self.conv(x) * x[:, :6], 2)

    conv, x = random_conv('ReBNNConv2d')
    net = Twice(conv)
    for ours, theirs in zip(outcome(net, x[:, :, :6]), outcome(with_memory(net, 'plain'), x[:, :, :6]), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_an_image_without_a_batch():
    conv, x = random_conv('ReBNNConv2d')
    assert_same(outcome(conv, x[0]), outcome(with_memory(conv, 'plain'), x[0]))


def test_layers_that_are_computed_together():
    binary, real = BinaryConv2d(8, 8, 3, memory='recompute'), BinaryConv2d(8, 8, 3, weight=None, activation=None)
    assert memory_of(binary, binary) == 'recompute'
    assert memory_of(binary, real) == memory_of(nn.Conv2d(8, 8, 3)) == memory_of() == 'plain'


@pytest.mark.parametrize('layer', [BinaryConv2d, BinaryLinear])
def test_an_unknown_option_is_named(layer):
    sizes = (8, 8, 3) if layer is BinaryConv2d else (8, 8)
    assert MEMORY == ('plain', 'sums', 'recompute')
    with pytest.raises(
        ValueError, match=rf"{layer.__name__}: memory='bits' is unknown; use one of plain, sums, recompute"
    ):
        layer(*sizes, memory='bits')


class NoisyWeight(BinaryMeanScaleWeight):
    def forward(self, weight):
        return super().forward(weight) * 1.1


class WideSign(BinarySign):
    values = Values('signs')

    def quantize(self, x):
        return super().quantize(x) * 1.5 if self.training else super().quantize(x)


@pytest.mark.parametrize(
    ('name', 'quantizer'), [('weight_quantizer', NoisyWeight), ('activation_quantizer', WideSign)]
)
@pytest.mark.parametrize('memory', MEMORY)
def test_other_values_in_training_have_to_be_declared(name, quantizer, memory, monkeypatch):
    conv, x = random_conv('BinaryConv2d', memory=memory)
    setattr(conv, name, quantizer((6, 8, 3, 3)) if name == 'weight_quantizer' else quantizer(8, -3))
    with pytest.raises(
        ValueError, match=f'BinaryConv2d: {quantizer.__name__} gives other values in training .* same_in'
    ):
        outcome(conv, x)
    monkeypatch.setattr(quantizer, 'values', Values('signs', same_in_training=False))
    plain = functional.conv2d(conv.activation_quantizer(x), conv.weight_quantizer(conv.weight), padding=1)
    torch.testing.assert_close(outcome(conv, x)[0], plain.detach(), atol=FLOAT32_ROUNDING, rtol=0)


class CentredWeight(BinaryMeanScaleWeight):
    values = Values('signs')

    def forward(self, weight):
        return super().forward(weight - weight.mean())

    def codes(self, weight):
        return super().codes(weight - weight.mean())


class HighSign(BinarySign):
    values = Values('signs', sign_of='other')

    def quantize(self, x):
        return super().quantize(x - 0.5)


def test_weights_that_are_no_numbers_are_not_taken_for_other_values():
    layer = BinaryLinear(8, 4, weight='BiBERTWeight')
    nn.init.constant_(layer.weight, math.nan)
    assert layer(torch.randn(2, 8)).isnan().all()


@pytest.mark.parametrize('training', [True, False])
def test_kernels_compute_what_a_method_of_ones_own_says(training):
    conv, x = random_conv('BinaryConv2d')
    conv.weight_quantizer, conv.activation_quantizer = CentredWeight((6, 8, 3, 3)), HighSign(8, -3)
    plain = functional.conv2d(conv.activation_quantizer(x), conv.weight_quantizer(conv.weight), padding=1)
    conv.train(training)
    torch.testing.assert_close(conv(x), plain, atol=FLOAT32_ROUNDING, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(conv(x), plain, atol=FLOAT32_ROUNDING, rtol=0)


@pytest.mark.parametrize('target', ['ReBNNLinear', 'ReCULinear', 'RBNNLinear'])
def test_a_scale_starts_from_the_weights_of_another_methods_checkpoint(target):
    """Whose quantizer has a state, too, but no scale."""
    source = MODELS.build(dict(type='IRNetLinear', in_features=8, out_features=4))
    with torch.no_grad():
        source.weight.fill_(0.5)
    layer = MODELS.build(dict(type=target, in_features=8, out_features=4))
    layer.load_state_dict(source.state_dict(), strict=False)
    layer.weight_quantizer.start(layer.weight)
    assert torch.equal(layer.weight_quantizer.alpha.flatten(), torch.full((4,), 0.5))
    own = MODELS.build(dict(type=target, in_features=8, out_features=4))
    own.load_state_dict(layer.state_dict())
    with torch.no_grad():
        own.weight.fill_(2.0)
    own.weight_quantizer.start(own.weight)
    assert torch.equal(own.weight_quantizer.alpha.flatten(), torch.full((4,), 0.5))


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (dict(keep_real='conv1'), r"keep_real='conv1' must be a list of names, \['conv1'\]"),
        (dict(keep_real=3), 'keep_real=3 must be a list of names'),
        (dict(keep_real=True), 'keep_real=True must be a list of names, or False'),
        (dict(weight=3), 'weight=3 must be the name of a quantizer'),
        (dict(gamma_bounds=2e-4), r'gamma_bounds=0.0002 must be \(lower, upper\)'),
    ],
)
def test_options_of_another_kind_are_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        MODELS.build(dict(type='ReBNNConv2d', in_channels=8, out_channels=8, kernel_size=3, **options))


def test_a_layer_on_the_meta_device():
    cfg = dict(type='ReBNNConv2d', in_channels=8, out_channels=8, kernel_size=3, device='meta', pad_value=-1.0)
    layer = MODELS.build(cfg)
    assert layer.weight_quantizer.alpha.is_meta and layer.pad_value == -1 and type(layer.pad_value) is int
