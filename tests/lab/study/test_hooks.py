"""A gamma that grows over training or is a share of the task's gradient, and scaling factors that start elsewhere."""

import pytest
import torch
from mmengine.hooks import Hook

from lab.study.hooks import (
    ReBNNAlphaStartHook,
    ReBNNGammaGrowthHook,
    ReBNNGammaShareHook,
    ReBNNHoldHook,
    ReBNNOscillationHook,
    _Held,
    _Oscillation,
)
from rebnn_mm.methods import BNNConv2d, ReBNNWeight
from tests.engine.small_runner import SmallClassifier, trained

REBNN = dict(type='ReBNNHook')


def hooks(*more):
    return dict(custom_hooks=[REBNN, *more])


def model(gamma=1.0, **options):
    torch.manual_seed(0)
    return SmallClassifier(gamma=gamma, **options)


class Watch(Hook):
    """Keeps gamma of each epoch, as the steps of it use it."""

    priority = 'LOWEST'

    def __init__(self, seen):
        self.seen = seen

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        if batch_idx == 0:
            self.seen.append(runner.model.conv1.weight_quantizer.gamma.clone())


def test_gamma_by_epoch(tmp_path):
    seen = []
    growth = dict(type='ReBNNGammaGrowthHook', start=0.2, power=2)
    trained(tmp_path / 'run', model(1e-3), epochs=4, **hooks(growth, Watch(seen)))
    expected = [1e-3 * (0.2 + 0.8 * (epoch / 4) ** 2) for epoch in range(4)]
    assert torch.stack(seen).tolist() == [pytest.approx([value] * 8, rel=1e-6) for value in expected]


def test_a_gamma_that_does_not_grow_is_a_constant_one(tmp_path):
    growth = dict(type='ReBNNGammaGrowthHook', start=1.0)
    grown = trained(tmp_path / 'grown', model(1e-2), **hooks(growth))
    constant = trained(tmp_path / 'constant', model(1e-2), **hooks())
    for name, value in constant.model.state_dict().items():
        assert torch.equal(grown.model.state_dict()[name], value), name


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path):
    options = dict(epochs=4, **hooks(dict(type='ReBNNGammaGrowthHook')))
    whole = trained(tmp_path / 'whole', model(1e-2), **options)
    trained(tmp_path / 'parts', model(1e-2), stop_after=2, **options)
    resumed = trained(tmp_path / 'parts', model(1e-2), resume=True, **options)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


@pytest.mark.parametrize('gamma', ['adaptive', 0])
def test_without_a_number_there_is_nothing_to_grow(tmp_path, gamma):
    with pytest.raises(ValueError, match='no layer has a number above 0 as gamma'):
        trained(tmp_path / 'run', model(gamma), **hooks(dict(type='ReBNNGammaGrowthHook')))


@pytest.mark.parametrize('arguments', [dict(start=-0.1), dict(start=1.5), dict(power=0)])
def test_arguments_out_of_range(arguments):
    with pytest.raises(ValueError, match='must be from 0 to 1'):
        ReBNNGammaGrowthHook(**arguments)


def test_scaling_factors_start_at_a_multiple_of_the_mean(tmp_path):
    small = model('adaptive')
    mean = small.conv1.weight.detach().abs().mean(dim=(1, 2, 3))
    still = dict(optimizer=dict(type='SGD', lr=0.0))
    start = dict(type='ReBNNAlphaStartHook', factor=4.0)
    runner = trained(tmp_path / 'run', small, epochs=1, optim_wrapper=still, **hooks(start))
    torch.testing.assert_close(runner.model.conv1.weight_quantizer.alpha.detach(), 4 * mean)
    trained(tmp_path / 'run', small, epochs=2, optim_wrapper=still, resume=True, **hooks(start))
    torch.testing.assert_close(small.conv1.weight_quantizer.alpha.detach(), 4 * mean)


def test_a_model_without_scaling_factors(tmp_path):
    with pytest.raises(ValueError, match='the model has no ReBNN layer'):
        trained(
            tmp_path / 'run',
            SmallClassifier(BNNConv2d),
            custom_hooks=[dict(type='BinaryHook'), dict(type='ReBNNAlphaStartHook', factor=2.0)],
        )
    with pytest.raises(ValueError, match='factor=0 must be above 0'):
        ReBNNAlphaStartHook(0)


SHARE = dict(type='ReBNNGammaShareHook', share=0.1)
STILL = dict(optimizer=dict(type='SGD', lr=0.0))


class Sizes(Hook):
    """By channel, the size of the term that a step has added to the gradient over that of the gradient before."""

    priority = 'LOWEST'

    def __init__(self):
        self.seen = []

    def before_train(self, runner):
        layers = runner.model.conv1, runner.model.conv2
        runner.optim_wrapper.optimizer.register_step_post_hook(
            lambda *_: self.seen.append([sizes(layer) for layer in layers])
        )


def sizes(layer):
    quantizer = layer.weight_quantizer
    latent = quantizer.latent(layer.weight.detach())
    alpha = quantizer.alpha.detach().view(-1, 1, 1, 1)
    term = quantizer.gamma.view(-1, 1, 1, 1) * (latent - torch.where(latent < 0, -alpha, alpha))
    task = layer.weight.grad - term
    return term.abs().sum(dim=(1, 2, 3)) / task.abs().sum(dim=(1, 2, 3))


def test_the_term_of_each_channel_has_its_share_of_the_gradient(tmp_path):
    # With a rate of 0 weights stay, so a step can be looked at when it is over.
    small, watch = model(), Sizes()
    trained(tmp_path / 'run', small, epochs=1, optim_wrapper=STILL, **hooks(SHARE, watch))
    found = torch.stack([size for step in watch.seen for size in step])
    torch.testing.assert_close(found, torch.full((8, 8), 0.1), rtol=1e-4, atol=0)
    assert small.conv1.weight_quantizer.gamma.unique().numel() > 1


def test_gamma_follows_the_scale_of_the_loss_and_not_that_of_the_weights():
    weight, alpha, grad = torch.randn(4, 9), torch.rand(4) + 0.5, torch.randn(4, 9)
    hook = ReBNNGammaShareHook(share=0.1)
    gamma = hook.gamma(weight, alpha, grad)
    torch.testing.assert_close(hook.gamma(weight, alpha, 50 * grad), 50 * gamma)
    torch.testing.assert_close(hook.gamma(3 * weight, 3 * alpha, grad), gamma / 3)


def test_a_channel_with_nothing_to_reconstruct_stays_finite():
    gamma = ReBNNGammaShareHook(share=0.1).gamma(torch.tensor([[2.0, -2.0]]), torch.tensor([2.0]), torch.ones(1, 2))
    assert torch.isfinite(gamma * 0.0).all()


def test_a_resumed_run_with_shares_is_the_run_that_was_not_stopped(tmp_path):
    options = dict(epochs=4, **hooks(SHARE))
    whole = trained(tmp_path / 'whole', model(), **options)
    trained(tmp_path / 'parts', model(), stop_after=2, **options)
    resumed = trained(tmp_path / 'parts', model(), resume=True, **options)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


def test_a_frozen_layer_keeps_its_gamma(tmp_path):
    small = model()
    small.conv1.weight.requires_grad_(False)
    trained(tmp_path / 'run', small, epochs=1, **hooks(SHARE))
    assert small.conv1.weight_quantizer.gamma.tolist() == [1.0] * 8
    assert (small.conv2.weight_quantizer.gamma != 1).all()


@pytest.mark.parametrize('small', [model('adaptive'), model(0), SmallClassifier(BNNConv2d)])
def test_without_a_number_there_is_nothing_to_renew(tmp_path, small):
    with pytest.raises(ValueError, match='no layer has a number above 0 as gamma'):
        trained(tmp_path / 'run', small, **hooks(SHARE))


@pytest.mark.parametrize('share', [0, -1, float('nan')])
def test_a_share_that_is_none(share):
    with pytest.raises(ValueError, match='must be above 0'):
        ReBNNGammaShareHook(share)


# Signs of two weights of two channels after each of four steps, from (+, +) in both: one weight flips back and forth
# every step, one flips once, one goes and comes back later, one stays.
WALK = ([[-1.0, 1.0], [-1.0, 1.0]], [[1.0, 1.0], [-1.0, 1.0]], [[-1.0, -1.0], [1.0, 1.0]], [[1.0, -1.0], [1.0, 1.0]])


def walked(kind, quantizer, *options, steps=4):
    weight = torch.ones(2, 2, requires_grad=True)
    weight.grad = torch.tensor([[3.0, -4.0], [1.0, 1.0]])
    layer = kind(weight, quantizer, *options)
    with torch.no_grad():
        for signs in (*WALK, *WALK[-1:] * 4)[:steps]:
            layer.before()
            weight.copy_(torch.tensor(signs))
            layer.after()
    return layer


def test_gamma_counts_what_comes_straight_back_over_a_window():
    quantizer = ReBNNWeight((2, 2), gamma=0.5)
    quantizer.alpha.data.copy_(torch.tensor([2.0, 1.0]))
    walked(_Oscillation, quantizer, 4, steps=3)
    assert quantizer.gamma.tolist() == [0.5, 0.5]  # the window is still open
    walked(_Oscillation, quantizer, 4)
    # Three of the four flips of the first weight undo the one before; the largest |G| of its channel is 4 / 2.
    assert quantizer.gamma.tolist() == [3 / 2 * 2.0, 0.0]
    walked(_Oscillation, quantizer, 4, steps=8)
    assert quantizer.gamma.tolist() == [0.0, 0.0]  # of a window of its own, in which nothing moved


def test_only_what_went_to_and_fro_is_held():
    quantizer = ReBNNWeight((2, 2), gamma=0)
    quantizer.alpha.data.copy_(torch.tensor([0.5, 0.25]))
    layer = walked(_Held, quantizer, 4, 0.1)
    assert layer.held.tolist() == [[True, False], [True, False]]
    with torch.no_grad():
        layer.weight.grad = torch.tensor([[3.0, -4.0], [1.0, 1.0]])
        layer.before()
    # (w - alpha b) / alpha is 1 and 3; the root mean squares of the gradients are sqrt(12.5) and 1.
    expected = torch.tensor([[3 + 0.1 * 12.5**0.5, -4.0], [1 + 0.1 * 3, 1.0]])
    torch.testing.assert_close(layer.weight.grad, expected)
    assert not walked(_Held, quantizer, 4, 0.1, steps=8).held.any()


@pytest.mark.parametrize('window', [255, 256, 512])
def test_a_weight_may_flip_in_every_step_of_a_long_window(window):
    weight = torch.ones(1, 2)
    layer = _Held(weight, ReBNNWeight((1, 2), gamma=0), window, 0.1)
    for _ in range(window):
        weight[0, 0].neg_()
        layer.after()
    assert layer.held.tolist() == [[True, False]]


def test_both_forms_act_in_a_training(tmp_path):
    wrapper = dict(optimizer=dict(type='SGD', lr=0.5))
    options = dict(epochs=4, optim_wrapper=wrapper)
    plain = trained(tmp_path / 'plain', model(0.0), **options, **hooks())
    held = trained(tmp_path / 'held', model(0.0), **options, **hooks(dict(type='ReBNNHoldHook', window=4)))
    assert not torch.equal(plain.model.conv1.weight, held.model.conv1.weight)
    counted = model(1e-3)
    trained(tmp_path / 'counted', counted, **options, **hooks(dict(type='ReBNNOscillationHook', window=4)))
    assert (counted.conv1.weight_quantizer.gamma != 1e-3).any()


@pytest.mark.parametrize(
    ('hook', 'gamma', 'message'),
    [
        (ReBNNOscillationHook, 0.0, 'no layer has a number above 0 as gamma'),
        (ReBNNHoldHook, 1.0, 'no layer has 0 as gamma'),
    ],
)
def test_forms_without_their_layers_are_refused(tmp_path, hook, gamma, message):
    with pytest.raises(ValueError, match=message):
        trained(tmp_path / 'run', model(gamma), **hooks(dict(type=hook.__name__)))
    with pytest.raises(ValueError, match='at least 2 steps'):
        hook(window=1)
