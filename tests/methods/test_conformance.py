"""Every registered method is what it declares: in training, checkpoints, kernels and exported files."""

import copy
import io
from functools import partial

import numpy as np
import pytest
import torch
from mmengine.registry import MODELS
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from rebnn_mm.engine import MethodDriver, ResilientGradient
from rebnn_mm.errors import RebnnError
from rebnn_mm.export import pack, trace
from rebnn_mm.functional import per_channel, sign
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.methods import METHODS, AdaBinActivation, AdaBinWeight
from rebnn_mm.quantizers import BinarySign, MissingHookWarning, Quantizer, Values, WeightQuantizer
from rebnn_mm.registry import list_classes
from tests.export.graphs import run

pytestmark = pytest.mark.filterwarnings('ignore', category=MissingHookWarning)  # of copies

SUMS = dict(rtol=1e-4, atol=1e-4)
"""Of a hundred products in another order; one wrong sign is a hundred times as much."""


def linear(**quantizers):
    return dict(type='BinaryLinear', in_features=12, out_features=8, **quantizers)


def conv(name, **quantizers):
    return dict(type=name, in_channels=12, out_channels=8, kernel_size=3, padding=1, **quantizers)


def with_quantizer(cls):
    return linear(**{'weight' if issubclass(cls, WeightQuantizer) else 'activation': dict(type=cls)})


def ours(base):
    return {name: cls for name, cls in list_classes(base).items() if cls.__module__.startswith('rebnn_mm.')}


NAMED = [name for cls in ours(BinaryConv2d).values() for name in (cls.method_weight, cls.method_activation)]
"""Quantizers that come with a layer."""

CASES = {
    **{name: conv(name) for name in ours(BinaryConv2d)},
    **{name: dict(linear(), type=name) for name in ours(BinaryLinear)},
    **{name: with_quantizer(cls) for name, cls in ours(Quantizer).items() if name not in NAMED},
    'DoReFa, one bit': conv(
        'BinaryConv2d', weight=dict(type='DoReFaWeight', bits=1), activation=dict(type='DoReFaActivation', bits=1)
    ),
    'TernaryBERT, over the tensor': linear(activation=dict(type='TernaryBERTActivation', over='tensor')),
    'BiT, two bits': linear(activation=dict(type='BiTSign', bits=2)),
}


def check(cfg):
    """Take a layer through a step of training, then compare what it does with what its quantizers declare."""
    torch.manual_seed(0)
    layer, x = MODELS.build(cfg), torch.randn(4, 12, *([6, 5] if 'kernel_size' in cfg else []))
    take_a_step(layer, x)
    check_weights(layer.weight_quantizer, layer.weight.detach())
    check_inputs(layer.activation_quantizer, x)
    check_kernel(layer, x)
    check_empty_batch(layer.train(), x)
    check_half_precision(MODELS.build(cfg).bfloat16(), x.bfloat16())
    check_checkpoint(layer, MODELS.build(cfg).eval(), x)
    check_file(layer.eval(), x)


def take_a_step(layer, x):
    layer.activation_quantizer.calibrate(x)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    ResilientGradient(layer).attach(optimizer)
    MethodDriver(layer).attach(optimizer)
    before = layer.weight.detach().clone()
    target = torch.randn_like(layer(x))
    (layer(x) - target).square().mean().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())
    optimizer.step()
    assert not torch.equal(layer.weight, before)


@torch.no_grad()
def check_weights(quantizer, weight):
    values, out = quantizer.values, quantizer.eval()(weight)
    if values.has_codes:
        codes, factor = quantizer.codes(weight)
        assert torch.equal(codes, codes.round())
        assert (values.kind == 'signs') == (codes.abs().eq(1).all().item() and quantizer.bits == 1)
        expected = codes if factor is None else codes * per_channel(factor, weight)
        torch.testing.assert_close(out, expected)
        same = torch.allclose(quantizer.train()(weight), expected, rtol=1e-3, atol=1e-5)
        assert same == values.same_in_training
    elif values.kind == 'two':
        signs, half, centre = quantizer.two_values(weight)
        torch.testing.assert_close(out, per_channel(half, weight) * signs + per_channel(centre, weight))


@torch.no_grad()
def check_inputs(quantizer, x):
    values, out = quantizer.values, quantizer.eval()(x)
    shifted = x if quantizer.shift is None else x + quantizer.along_channels(quantizer.shift, x)
    if values.kind == 'two':
        start, half, centre = quantizer.two_values()
        torch.testing.assert_close(out, half * sign(shifted + start) + centre)
    assert (values.kind == 'signs') == out.abs().eq(1).all().item()
    if values.kind == 'signs':
        centred = shifted - shifted.mean(dim=quantizer.sample_dims(x), keepdim=True)
        of = {'shifted': shifted, 'centred': centred}
        assert values.sign_of == next((name for name in of if torch.equal(out, sign(of[name]))), 'other')
        assert values.same_in_training == torch.equal(quantizer.train()(x), out)


def check_kernel(layer, x):
    """Output and gradients are those of a plain product; signs are summed where both sides allow it."""
    quantizers = layer.weight_quantizer, layer.activation_quantizer
    for training in (True, False):
        sums = all(q.values.kind == 'signs' and (q.values.same_in_training or not training) for q in quantizers)
        plain, counted = copy.deepcopy(layer.train(training)), copy.deepcopy(layer)
        with FlopCounterMode(display=False) as counter:
            counted(x)
        assert (torch.ops.rebnn.sign_sums in counter.flop_counts['Global']) == sums
        torch.testing.assert_close(outcome(layer, x, layer), outcome(plain, x, partial(product, plain)), **SUMS)


def check_empty_batch(layer, x):
    """A head of a detector may see no region."""
    y, *gradients = outcome(layer, x[:0], layer)
    assert y.shape == layer(x)[:0].shape
    assert all(torch.equal(gradient, torch.zeros_like(gradient)) for gradient in gradients)


def check_half_precision(layer, x):
    y, *gradients = outcome(layer, x, layer)
    assert y.dtype == x.dtype
    assert all(gradient.isfinite().all() for gradient in gradients)


def product(layer, x):
    """What a layer computes, in PyTorch's own operators."""
    x, weight = layer.activation_quantizer(x), layer.weight_quantizer(layer.weight)
    if isinstance(layer, BinaryLinear):
        return functional.linear(x, weight, layer.bias)
    return functional.conv2d(functional.pad(x, (1, 1, 1, 1), value=layer.pad_value), weight, layer.bias)


def outcome(layer, x, function):
    """The output of a function of a layer, and the gradients of a random multiple of it."""
    x = x.clone().requires_grad_()
    y = function(x)
    upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    leaves = [x, *layer.parameters()]
    return [y, *torch.autograd.grad(y, leaves, upstream, allow_unused=True, materialize_grads=True)]


@torch.no_grad()
def check_checkpoint(layer, fresh, x):
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    fresh.load_state_dict(torch.load(file))
    assert torch.equal(fresh(x), layer.eval()(x))


@torch.no_grad()
def check_file(layer, x):
    """A file computes what PyTorch does, with one operator where the sign of the input is the operator's own."""
    quantizers = layer.weight_quantizer, layer.activation_quantizer
    strange = [quantizer for quantizer in quantizers if quantizer.values.kind not in ('signs', 'two')]
    if strange:
        with pytest.raises(RebnnError, match=type(strange[0]).__name__):
            pack(layer)
        return
    model = trace(pack(layer).model, {'x': x}, ['y'])
    np.testing.assert_allclose(run(model, {'x': x.numpy()})[0], layer(x), **SUMS)
    weights, inputs = (quantizer.values for quantizer in quantizers)
    assert (len(model.graph.node) == 1) == (weights.kind == inputs.kind == 'signs' and inputs.sign_of == 'shifted')


@pytest.mark.parametrize('name', CASES)
def test_a_method_is_what_it_declares(name):
    check(CASES[name])


def test_every_method_is_among_them():
    assert {name for method in METHODS.values() for name in method.names} <= {*CASES, *map(str, NAMED)}


@pytest.mark.parametrize(
    ('name', 'values'),
    [
        ('BinarySign', Values('other')),
        ('BinarySign', Values('signs', sign_of='other')),  # right, and slow
        ('BinarySign', Values('signs', same_in_training=False)),
        ('BinaryStep', Values('signs')),
        ('RBNNSign', Values('signs')),
        ('FDASign', Values('signs')),
        ('AdaBinActivation', Values('signs')),
        ('BinaryMeanScaleWeight', Values('integers')),
        ('TWNWeight', Values('signs')),
        ('BNextWeight', Values('signs')),
    ],
)
def test_a_wrong_declaration_fails(name, values, monkeypatch):
    monkeypatch.setattr(MODELS.get(name), 'values', values)
    with pytest.raises((AssertionError, RebnnError)):
        check(with_quantizer(MODELS.get(name)))


class HighSign(BinarySign):
    values = Values('signs')

    def quantize(self, x):
        return super().quantize(x - 0.5)


class FarValues(AdaBinActivation):
    def two_values(self):
        start, half, centre = super().two_values()
        return start, half, centre + 0.5

    values = Values('two')


class FarWeight(AdaBinWeight):
    def two_values(self, weight):
        signs, half, centre = super().two_values(weight)
        return signs, 2 * half, centre

    values = Values('two')


@pytest.mark.parametrize('quantizer', [HighSign, FarValues, FarWeight])
def test_a_method_that_computes_something_else_fails(quantizer):
    with pytest.raises(AssertionError):
        check(with_quantizer(quantizer))


def test_a_function_without_a_declaration_is_refused():
    with pytest.raises(RebnnError, match=r'Silent has quantize\(\) of its own and does not declare'):
        type('Silent', (BinarySign,), {'quantize': lambda self, x: x})
