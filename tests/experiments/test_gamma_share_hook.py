"""A reconstruction term that is a share of the task's gradient."""

import pytest
import torch
from mmengine.hooks import Hook

from experiments.study.hooks import ReBNNGammaShareHook
from rebnn_mm.methods import BNNConv2d
from tests.engine.small_runner import SmallClassifier, trained

SHARE = dict(type='ReBNNGammaShareHook', share=0.1)
STILL = dict(optimizer=dict(type='SGD', lr=0.0))


def hooks(*more):
    return dict(custom_hooks=[dict(type='ReBNNHook'), *more])


def model(gamma=1.0, **options):
    torch.manual_seed(0)
    return SmallClassifier(gamma=gamma, **options)


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


def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path):
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
