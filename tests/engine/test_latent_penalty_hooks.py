from types import SimpleNamespace

import pytest
import torch
from mmengine.optim import OptimWrapper
from torch import nn

from rebnn_mm.engine import DampeningHook, UnitMagnitudeHook
from rebnn_mm.engine.latent_penalty_hooks import dampening_gradient, unit_magnitude_gradient
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import ReCUConv2d, SiMaNConv2d, XNORLinear
from tests.engine.small_runner import SmallClassifier, trained


def test_dampening_is_the_gradient_of_its_penalty():
    torch.manual_seed(0)
    w = torch.randn(4, 7, dtype=torch.float64, requires_grad=True)
    values = w.detach().abs().mean(1, keepdim=True) * torch.where(w < 0, -1.0, 1.0)
    clipped = torch.minimum(torch.maximum(w, -values.abs()), values.abs())
    (expected,) = torch.autograd.grad(0.3 * (values - clipped).square().sum(), w)
    torch.testing.assert_close(dampening_gradient(w.detach(), values, 0.3), expected, rtol=1e-12, atol=1e-14)
    assert 0 < int((expected == 0).sum()) < expected.numel()


def test_unit_magnitude_is_the_gradient_of_its_penalty():
    torch.manual_seed(0)
    weights = [torch.randn(4, 7, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    penalty = 0.7 * sum((w.abs() - 1).abs().mean() for w in weights) / 3
    for w, expected in zip(weights, torch.autograd.grad(penalty, weights), strict=True):
        torch.testing.assert_close(unit_magnitude_gradient(w.detach(), 3, 0.7), expected, rtol=1e-12, atol=1e-14)


def test_a_step_has_the_gradient_of_both():
    """What the hook adds in a real step is the formula with the method's own scale."""
    layer = XNORLinear(5, 3, bias=False).double()
    optimizer = torch.optim.SGD([layer.weight], lr=1.0)
    w = layer.weight.detach().clone()
    for hook, added in (
        (DampeningHook(weight=0.2, start=0.1), dampening_gradient(w, values_of(w), 0.1)),
        (UnitMagnitudeHook(weight=0.2), unit_magnitude_gradient(w, 1, 0.2)),
    ):
        layer.weight.data.copy_(w)
        layer.weight.grad = torch.ones_like(w)
        hook.prepare(optimizer, {'layer': layer})
        with torch.no_grad():
            hook.before(optimizer, {'layer': layer})
        optimizer.step()
        torch.testing.assert_close(layer.weight.detach(), w - 1 - added, rtol=1e-12, atol=1e-14)


def values_of(w):
    return w.abs().mean(1, keepdim=True) * torch.where(w < 0, -1.0, 1.0)


@pytest.mark.parametrize('hook', [dict(type='DampeningHook', weight=3.0), dict(type='UnitMagnitudeHook', weight=20.0)])
def test_fewer_weights_lie_near_zero(tmp_path, hook):
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.05))
    near = []
    for name, more in (('without', []), ('with', [hook])):
        runner = trained(
            tmp_path / name, epochs=20, optim_wrapper=optim_wrapper, custom_hooks=[dict(type='ReBNNHook'), *more]
        )
        weight = runner.model.conv1.weight.detach()
        near.append(float((weight.abs() < 0.3 * weight.abs().mean()).float().mean()))
    assert near[1] < 0.7 * near[0]


def test_a_model_without_binary_weights_is_refused(tmp_path):
    def real(*args, **options):
        return nn.Conv2d(*args, **options)

    with pytest.raises(ValueError, match='trains no layer with 1-bit weights'):
        trained(tmp_path, SmallClassifier(real), custom_hooks=[dict(type='DampeningHook')])


@pytest.mark.parametrize('kind', ['DampeningHook', 'FreezingHook'])
def test_an_optimizer_without_binary_weights_is_refused(tmp_path, kind):
    model = SmallClassifier()
    wrapper = OptimWrapper(torch.optim.SGD(model.head.parameters(), lr=0.1))
    with pytest.raises(ValueError, match=f'{kind}: the model trains no layer with 1-bit weights'):
        trained(tmp_path, model, constructor=False, optim_wrapper=wrapper, custom_hooks=[dict(type=kind)])


def test_a_weight_that_layers_share_is_dampened_once():
    layers = [XNORLinear(5, 5, bias=False).double() for _ in range(2)]
    layers[1].weight = layers[0].weight
    weight = layers[0].weight
    wrapper = OptimWrapper(torch.optim.SGD([weight], lr=1.0))
    w = weight.detach().clone()
    weight.grad = torch.zeros_like(w)
    hook = DampeningHook(weight=0.2, start=0.1)
    hook.before_train(SimpleNamespace(model=nn.Sequential(*layers), optim_wrapper=wrapper, iter=0, max_iters=8))
    wrapper.optimizer.step()
    expected = w - dampening_gradient(w, values_of(w), 0.1)
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-12, atol=1e-14)


def test_a_second_training_has_the_penalty_once():
    """Also where an error has ended the first one, after which no hook is told."""
    layer = XNORLinear(5, 5, bias=False).double()
    hook = UnitMagnitudeHook(weight=0.2)
    for _ in range(2):
        wrapper = OptimWrapper(torch.optim.SGD([layer.weight], lr=1.0))
        hook.before_train(SimpleNamespace(model=layer, optim_wrapper=wrapper, iter=0, max_iters=8))
    w = layer.weight.detach().clone()
    layer.weight.grad = torch.zeros_like(w)
    wrapper.optimizer.step()
    expected = w - unit_magnitude_gradient(w, 1, 0.2)
    torch.testing.assert_close(layer.weight.detach(), expected, rtol=1e-12, atol=1e-14)


def test_an_epoch_begun_again_after_a_stop_does_not_lead_back():
    layer = XNORLinear(5, 5)
    wrapper = OptimWrapper(torch.optim.SGD(layer.parameters(), lr=1.0))
    hook = DampeningHook()
    hook.before_train(SimpleNamespace(model=layer, optim_wrapper=wrapper, iter=10, max_iters=8))
    assert hook.progress() == 1


def test_two_values_on_one_side_of_zero_are_refused(tmp_path):
    def adabin(*args, **options):
        return BinaryConv2d(*args, weight='AdaBinWeight', activation='AdaBinActivation', **options)

    with pytest.raises(ValueError, match="AdaBinWeight of 'conv1'"):
        trained(tmp_path, SmallClassifier(adabin), custom_hooks=[dict(type='BinaryHook'), dict(type='DampeningHook')])


@pytest.mark.parametrize('method', [ReCUConv2d, SiMaNConv2d])
def test_dampening_of_other_signs_than_those_of_latent_weights_is_refused(tmp_path, method):
    hooks = [dict(type='BinaryHook'), dict(type='DampeningHook')]
    with pytest.raises(ValueError, match="DampeningHook: signs of 'conv1' are not those of its latent weights"):
        trained(tmp_path, SmallClassifier(method), custom_hooks=hooks)


@pytest.mark.parametrize(
    ('hook', 'options'),
    [(DampeningHook, dict(weight=-1.0)), (DampeningHook, dict(start=-1.0)), (UnitMagnitudeHook, dict(weight=0.0))],
)
def test_options_that_make_no_sense_are_refused(hook, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        hook(**options)


def test_gradients_that_carry_the_loss_scale_are_refused():
    layer = XNORLinear(5, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    DampeningHook()._around(optimizer, {'layer': layer})
    optimizer.grad_scale = torch.tensor(1024.0)
    with pytest.raises(ValueError, match='DampeningHook: optimizer SGD.fused=True. with AMP sees scaled gradients'):
        optimizer.step()
