"""What the resilient gradient counts for the log."""

import pytest
import torch

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.methods import ReBNNConv2d
from tests.engine.networks import TwoLayers, batches, train


def test_statistics_count_flips_and_flips_back():
    layer = ReBNNConv2d(2, 1, 1, bias=False, activation=None, gamma=0)
    layer.weight.data = torch.tensor([0.5, -0.5]).view(1, 2, 1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    resilient = ResilientGradient(layer).attach(optimizer)
    for steps in ([0.8, 0.0], [-0.8, 0.0], [0.0, -0.8], [0.0, 0.0]):
        layer.weight.grad = torch.tensor(steps).view(1, 2, 1, 1)
        optimizer.step()
    numbers = resilient.statistics()
    # Of 4 steps times 2 weights: flips in steps 1, 2 and 3; only the flip of step 2 undoes the one right before it.
    assert numbers['flips_per_million'] == pytest.approx(1e6 * 3 / 8)
    assert numbers['sequential_flips_per_million'] == pytest.approx(1e6 * 1 / 8)
    # Over the whole run, of 2 weights.
    assert numbers['flips_so_far_percent'] == 150
    later = resilient.statistics()
    assert later['flips_per_million'] == 0 and later['flips_so_far_percent'] == 150


def test_statistics_count_flips_of_centred_signs():
    layer = ReBNNConv2d(3, 1, 1, bias=False, activation=None, gamma=0, center='row', keep_real=False)
    layer.weight.data = torch.tensor([1.0, 2.0, 6.0]).view(1, 3, 1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    resilient = ResilientGradient(layer).attach(optimizer)
    # [1, 2, 6] is - - + about its mean, [1, 3.5, 3] is - + +; no latent weight changes its sign.
    layer.weight.grad = torch.tensor([0.0, -1.5, 3.0]).view(1, 3, 1, 1)
    optimizer.step()
    assert resilient.statistics()['flips_per_million'] == pytest.approx(1e6 / 3)


def test_term_share_of_the_median_and_the_largest_layer():
    model = TwoLayers(gamma=1e-2)
    resilient = train(model, batches(2))
    numbers = resilient.statistics()
    assert sorted(resilient.term_shares) == ['conv', 'linear']
    shares = sorted(resilient.term_shares.values())
    assert 0 < shares[0] < shares[1]
    assert numbers['term_share_median_percent'] == pytest.approx(100 * shares[1])
    assert numbers['term_share_max_percent'] == pytest.approx(100 * shares[1])
    assert 'term_share_max_percent' not in train(TwoLayers(gamma=0), batches(1)).statistics()


def test_layers_that_never_flip_are_named():
    model = TwoLayers()
    model.linear.weight.data *= 1e6
    resilient = train(model, batches(9))
    resilient.statistics()
    assert resilient.find_unmoved(9) == ['linear'] and resilient.find_unmoved(10) == []


def test_statistics_of_bounds_gamma_and_alpha():
    model = TwoLayers(gamma='max', gamma_bounds=(1e-9, 1e-8))
    resilient = train(model, batches(1))
    numbers = resilient.statistics()
    assert numbers['gamma_at_upper_percent'] == 100 and numbers['gamma_at_lower_percent'] == 0
    assert numbers['gamma_mean_x1e6'] == pytest.approx(1e-2, rel=1e-4)
    ratios = torch.cat([layer.alpha / layer.weight.abs().flatten(1).mean(1) for layer in model.layers])
    assert numbers['alpha_over_mean_abs_w'] == pytest.approx(ratios.mean().item(), rel=1e-5)
    assert 'gamma_at_lower_percent' not in ResilientGradient(TwoLayers(gamma=1e-4)).statistics()


def test_weights_beyond_the_mask_are_counted():
    model = TwoLayers()
    model.conv.weight.data.clamp_(-1, 1)
    model.linear.weight.data.fill_(0.5)[0] = 2.0
    resilient = ResilientGradient(model)
    masked = resilient.statistics()['masked_percent']
    assert resilient.masked_shares == {'conv': 0.0, 'linear': pytest.approx(1 / len(model.linear.weight))}
    weights = model.conv.weight.numel() + model.linear.weight.numel()
    assert masked == pytest.approx(100 * model.linear.weight[0].numel() / weights)
    # The released code has no mask.
    model = TwoLayers(variant='official')
    model.linear.weight.data.fill_(2.0)
    assert ResilientGradient(model).statistics()['masked_percent'] == 0
