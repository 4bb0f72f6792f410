"""Where the method must hold exactly, outside mmengine."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.methods import ReBNNConv2d, ReBNNLinear
from rebnn_mm.quantizers import MissingHookWarning
from tests import two_processes
from tests.engine.networks import LR, TwoLayers, batches, state, train, written_out_loss
from tests.engine.reference import Reference
from tests.tolerances import FLOAT64_EXACT

FLOAT32_GAMMA = 1e-6
"""gamma is a float32 buffer; it enters gradients multiplied by values of about one."""


def assert_same(model, other, exact=False):
    for name, value in state(other).items():
        torch.testing.assert_close(
            model.state_dict()[name],
            value,
            atol=0 if exact else FLOAT64_EXACT,
            rtol=0,
            msg=lambda m, name=name: f'{name}: {m}',
        )


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'gamma_bounds': None},
        {'gamma': 'max', 'gamma_bounds': None},
        {'gamma': 'max'},
        {'gamma': 'max', 'gamma_bounds': None, 'max_share': None},
        {'gamma': 'max', 'gamma_bounds': None, 'max_share': 0.1},
        {'gamma': 1e-2},
        {'gamma': 0},
        {'flip_window': 3, 'gamma_bounds': None},
        {'center': 'row'},
        {'center': 'row', 'gamma_bounds': None},
        {'center': 'row', 'gamma': 1e-2},
        {'center': 'row', 'flip_window': 3, 'gamma_bounds': None},
    ],
    ids=str,
)
@pytest.mark.parametrize('repeat', [1, 3])
def test_equals_the_written_out_method(options, repeat):
    model = TwoLayers(repeat=repeat, **options)
    weights = [layer.weight for layer in model.layers]
    reference = Reference(
        weights,
        written_out_loss(repeat),
        LR,
        options.get('gamma', 'adaptive'),
        options.get('gamma_bounds', (1e-5, 2e-4)),
        options.get('flip_window', 1),
        options.get('center'),
        options.get('max_share', 0.01),
    )
    data = batches(9)
    train(model, data)
    for batch in data:
        reference.step(batch)
    for i, layer in enumerate(model.layers):
        torch.testing.assert_close(layer.gamma.double(), reference.gamma[i], atol=0, rtol=FLOAT32_GAMMA)
        torch.testing.assert_close(layer.weight.data, reference.w[i], atol=9 * LR * FLOAT32_GAMMA, rtol=0)
        torch.testing.assert_close(layer.alpha.data, reference.alpha[i], atol=9 * LR * FLOAT32_GAMMA, rtol=0)
    start = TwoLayers(repeat=repeat)
    assert any(((m.weight < 0) != (s.weight < 0)).any() for m, s in zip(model.layers, start.layers, strict=True))


def test_a_reference_without_the_mask_or_the_term_is_told_apart():
    """The comparison above can fail: leave out one line of the method and it does."""
    model = TwoLayers(gamma=1e-2)
    reference = Reference([layer.weight for layer in model.layers], written_out_loss(), LR, gamma=0.0)
    data = batches(3)
    train(model, data)
    for batch in data:
        reference.step(batch)
    assert (model.conv.weight.data - reference.w[0]).abs().max() > 1e-3


@pytest.mark.parametrize(
    'options',
    [{'gamma_bounds': None}, {'gamma': 'max'}, {'flip_window': 2}, {'center': 'row', 'gamma_bounds': None}],
    ids=str,
)
def test_accumulation_of_four_equals_one(options):
    one, four = TwoLayers(**options), TwoLayers(**options)
    train(one, batches(6))
    train(four, batches(6), micro=4)
    for name, value in state(one).items():
        tolerance = FLOAT32_GAMMA if name.endswith('gamma') else FLOAT64_EXACT
        torch.testing.assert_close(four.state_dict()[name], value, atol=FLOAT64_EXACT, rtol=tolerance)


def test_loss_scaling_changes_nothing():
    plain, scaled = TwoLayers(gamma_bounds=None), TwoLayers(gamma_bounds=None)
    train(plain, batches(6))
    train(scaled, batches(6), scaler=torch.amp.GradScaler('cpu', init_scale=65536.0))
    # A power of two scales without rounding.
    assert_same(scaled, plain, exact=True)


def test_autocast_keeps_weights_and_gamma_in_single_precision():
    single, half = TwoLayers(gamma='max', gamma_bounds=None).float(), TwoLayers(gamma='max', gamma_bounds=None).float()
    data = [(x.float(), target.float()) for x, target in batches(1)]
    train(single, data)
    with torch.autocast('cpu', torch.bfloat16):
        train(half, data, scaler=torch.amp.GradScaler('cpu', init_scale=1024.0))
    for name, value in state(half).items():
        assert value.dtype == torch.float32, name
        # One step in bfloat16, which has eight bits.
        torch.testing.assert_close(value, single.state_dict()[name], atol=2e-2, rtol=5e-2)
    assert (half.conv.gamma > 0).all()


def test_a_step_skipped_for_inf_changes_nothing():
    model = TwoLayers(gamma_bounds=None)
    scaler = torch.amp.GradScaler('cpu', init_scale=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    resilient = train(model, batches(2), optimizer, scaler=scaler)
    before = state(model)
    (x, target), *rest = batches(3, seed=1)
    train(model, [(x, torch.full_like(target, float('inf')))], optimizer, resilient, scaler=scaler)
    for name, value in before.items():
        assert torch.equal(model.state_dict()[name], value), name
    other = TwoLayers(gamma_bounds=None)
    train(other, batches(2) + rest)
    train(model, rest, optimizer, resilient, scaler=scaler)
    assert_same(model, other, exact=True)


def test_checkpointing_changes_nothing():
    plain, checkpointed = TwoLayers(gamma_bounds=None, repeat=2), TwoLayers(gamma_bounds=None, repeat=2, with_cp=True)
    train(plain, batches(5))
    train(checkpointed, batches(5))
    assert_same(checkpointed, plain, exact=True)


@pytest.mark.parametrize('how', ['requires_grad', 'not_used', 'not_in_optimizer'])
def test_frozen_layer_is_left_alone(how):
    model = TwoLayers(gamma_bounds=None)
    ResilientGradient(model)
    before = state(model)
    parameters = list(model.parameters())
    if how == 'requires_grad':
        model.conv.requires_grad_(False)
    elif how == 'not_in_optimizer':
        parameters = list(model.linear.parameters())
    optimizer = torch.optim.SGD(parameters, lr=LR, weight_decay=0.1)
    resilient = ResilientGradient(model).attach(optimizer)
    for x, target in batches(3):
        features = x[:, :, 0, 0] if how == 'not_used' else None
        loss = model.loss((x, target)) if features is None else (model.linear(features) - target).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    for name, value in state(model).items():
        if name.startswith('conv'):
            assert torch.equal(value, before[name]), name
    assert not torch.equal(model.linear.weight, before['linear.weight'])
    assert not torch.equal(model.linear.alpha, before['linear.weight_quantizer.alpha'])
    resilient.detach()


def _ddp_worker(rank, path):
    model = TwoLayers(gamma_bounds=None)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    ResilientGradient(wrapped).attach(optimizer)
    for x, target in batches(6):
        half = slice(4 * rank, 4 * rank + 4)
        (wrapped(x[half]) - target[half]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save(state(model), f'{path}/{rank}.pt')


def test_two_processes_equal_one_with_the_joined_batch(tmp_path):
    two_processes.run(_ddp_worker, str(tmp_path))
    first, second = (torch.load(tmp_path / f'{rank}.pt') for rank in (0, 1))
    single = TwoLayers(gamma_bounds=None)
    train(single, batches(6))
    for name, value in state(single).items():
        assert torch.equal(first[name], second[name]), name
        tolerance = FLOAT32_GAMMA if name.endswith('gamma') else FLOAT64_EXACT
        torch.testing.assert_close(first[name], value, atol=FLOAT64_EXACT, rtol=tolerance)


def test_fused_optimizer_under_loss_scaling_is_refused():
    model = TwoLayers()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with pytest.raises(ValueError, match='fused=True.* sees scaled gradients.*fused=False'):
        train(model, batches(1), optimizer, scaler=torch.amp.GradScaler('cpu'))


def test_fused_optimizer_without_loss_scaling_is_fine():
    fused, plain = TwoLayers(), TwoLayers()
    train(fused, batches(3), torch.optim.SGD(fused.parameters(), lr=LR, fused=True))
    train(plain, batches(3))
    assert_same(fused, plain)


def test_alpha_in_another_optimizer_is_refused():
    model = TwoLayers()
    weights = [layer.weight for layer in model.layers]
    with pytest.raises(ValueError, match="'conv'.*alpha is not.*same optimizer"):
        ResilientGradient(model).attach(torch.optim.SGD(weights, lr=0.1))


def test_alpha_stays_positive():
    model = TwoLayers(gamma=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e4)
    train(model, batches(1), optimizer)
    assert all((layer.alpha > 0).all() for layer in model.layers)


@pytest.mark.parametrize('options', [{}, {'gamma': 1e-3}, {'gamma': 0}, {'center': 'row'}])
def test_adam_does_not_carry_alpha_to_zero_before_a_batch_norm(options):
    """Where the norm's epsilon counts, it would have a gradient of 200,000 in place of 30."""
    torch.manual_seed(0)
    layer, norm = ReBNNConv2d(4, 16, 3, bias=False, **options), nn.BatchNorm2d(16)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    ResilientGradient(layer).attach(optimizer)
    for _ in range(100):
        optimizer.zero_grad()
        (norm(layer(torch.randn(4, 4, 8, 8))) - torch.randn(4, 16, 6, 6)).square().sum().backward()
        assert layer.alpha.grad.abs().max() < 200
        magnitude = layer.weight_quantizer.latent(layer.weight).detach().abs().mean(dim=(1, 2, 3))
        optimizer.step()
        assert (layer.alpha >= 0.2499 * magnitude).all()


def test_training_without_it_warns_once_and_with_it_does_not(recwarn):
    model = TwoLayers()
    with pytest.warns(MissingHookWarning, match="custom_hooks=\\[dict\\(type='ReBNNHook'\\)\\]"):
        model.loss(batches(1)[0])
    recwarn.clear()
    train(model, batches(2))
    model.eval()(batches(1)[0][0])
    assert not [w for w in recwarn if issubclass(w.category, MissingHookWarning)]


def test_detach_puts_the_plain_gradient_back():
    model, plain = TwoLayers(), TwoLayers()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    ResilientGradient(model).attach(optimizer).detach()
    batch = batches(1)[0]
    with pytest.warns(MissingHookWarning):
        model.loss(batch).backward()
    ResilientGradient(plain)
    plain.loss(batch).backward()
    before = model.conv.weight.grad.clone()
    assert torch.equal(before, plain.conv.weight.grad)
    optimizer.step()
    assert torch.equal(model.conv.weight.grad, before)


def test_centred_gradient_equals_autograd_of_the_written_out_loss():
    """Task loss with the straight-through surrogate, plus L_R, as one expression of the uncentred weight."""
    model = TwoLayers(center='row', gamma=1e-2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    resilient = ResilientGradient(model).attach(optimizer)
    batch = batches(1)[0]
    model.loss(batch).backward()
    optimizer.step()
    resilient.detach()
    weights = [layer.weight.detach().clone().requires_grad_() for layer in model.layers]
    alphas = [layer.alpha.detach().clone().requires_grad_() for layer in model.layers]
    w_hat, term = [], 0.0
    for w, alpha in zip(weights, alphas, strict=True):
        centred = w - w.flatten(1).mean(1).view(-1, *[1] * (w.dim() - 1))
        b = torch.where(centred < 0, -1.0, 1.0).double()
        wide = alpha.view(-1, *[1] * (w.dim() - 1))
        w_hat.append(wide * (b + centred.clamp(-1, 1) - centred.clamp(-1, 1).detach()))
        term = term + 0.5e-2 * (centred - wide * b).square().sum()
        assert (centred.abs() > 1).any() and ((centred < 0) != (w < 0)).any()
    (written_out_loss()(w_hat, batch) + term).backward()
    for layer, w, alpha in zip(model.layers, weights, alphas, strict=True):
        # gamma is a float32 buffer.
        torch.testing.assert_close(layer.weight.grad, w.grad, atol=FLOAT64_EXACT, rtol=FLOAT32_GAMMA)
        torch.testing.assert_close(layer.alpha.grad, alpha.grad, atol=FLOAT64_EXACT, rtol=FLOAT32_GAMMA)
        assert layer.weight.grad.flatten(1).mean(1).abs().max() < FLOAT64_EXACT


def test_the_backward_pass_is_the_same_with_and_without_step_hooks():
    alone, driven = TwoLayers(center='row', gamma=0), TwoLayers(center='row', gamma=0)
    optimizer = torch.optim.SGD(driven.parameters(), lr=0.0)
    ResilientGradient(driven).attach(optimizer)
    ResilientGradient(alone)
    batch = batches(1)[0]
    with pytest.warns(MissingHookWarning):
        losses = [model.loss(batch) for model in (alone, driven)]
    assert torch.equal(*losses)
    for loss in losses:
        loss.backward()
    for one, other in zip(alone.layers, driven.layers, strict=True):
        torch.testing.assert_close(one.weight.grad, other.weight.grad, atol=FLOAT64_EXACT, rtol=0)


def one_layer(gamma, weights, gradients, **options):
    """A layer of one row per channel, after one step at a rate of 0 with these gradients."""
    weights = torch.tensor(weights)
    layer = ReBNNLinear(*reversed(weights.shape), bias=False, activation=None, gamma=gamma, **options)
    layer.weight.data = weights
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
    resilient = ResilientGradient(layer).attach(optimizer)
    layer.weight.grad, layer.alpha.grad = torch.tensor(gradients), torch.zeros(len(weights))
    optimizer.step()
    return layer, resilient


@pytest.mark.parametrize('gamma', ['adaptive', 'max', 1e-4])
def test_a_channel_without_task_gradient_gets_no_term(gamma):
    layer, _ = one_layer(gamma, [[0.5, -0.1], [0.5, -0.1]], [[0.0, 0.0], [0.0, 3.0]])
    assert (layer.weight.grad[0] == 0).all() and layer.alpha.grad[0] == 0
    assert layer.weight.grad[1, 0] != 0


def test_the_term_stays_below_its_share_of_the_task_gradient():
    options = {'gamma_bounds': (1.0, 1.0), 'max_share': 0.1}
    weights, gradients = [[0.5, -0.1], [0.5, -0.1]], [[3e-2, 4e-2], [300.0, 400.0]]
    limited, resilient = one_layer('adaptive', weights, gradients, **options)
    terms = limited.weight.grad - torch.tensor(gradients)
    assert terms[0].norm() == pytest.approx(0.1 * 5e-2, rel=1e-5)
    # w - alpha b with alpha = 0.3 is 0.2 in both places; 500 is far from being drowned.
    assert terms[1].norm() == pytest.approx(0.2 * 2**0.5, rel=1e-3)
    assert limited.gamma.tolist() == [1.0, 1.0]
    share = resilient.statistics()['term_share_max_percent']
    assert share == pytest.approx(100 * terms.norm().item() / torch.tensor(gradients).norm().item(), rel=1e-3)
    free, _ = one_layer('adaptive', weights, gradients, gamma_bounds=(1.0, 1.0), max_share=None)
    assert (free.weight.grad - torch.tensor(gradients))[0].norm() == pytest.approx(0.2 * 2**0.5, rel=1e-5)


@pytest.mark.parametrize('center', [None, 'row'])
def test_alpha_of_a_frozen_weight_gets_its_term_and_stays_positive(center):
    model = TwoLayers(gamma=1e-2, center=center)
    model.conv.weight.requires_grad_(False)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=1e4)
    ResilientGradient(model).attach(optimizer)
    model.loss(batches(1)[0]).backward()
    alpha, w, before = model.conv.alpha.detach().clone(), model.conv.weight, model.conv.alpha.grad.clone()
    w = w if center is None else w - w.mean(dim=(1, 2, 3), keepdim=True)
    optimizer.step()
    pull = w.abs().flatten(1).sum(1) - alpha * w[0].numel()
    torch.testing.assert_close(model.conv.alpha.grad - before, -1e-2 * pull, atol=1e-8, rtol=FLOAT32_GAMMA)
    assert (model.conv.alpha > 0).all()


def test_released_variant_has_a_constant_gamma_and_its_own_gradient():
    model = TwoLayers(variant='official')
    start = state(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    resilient = ResilientGradient(model).attach(optimizer)
    model.loss(batches(1)[0]).backward()
    released = {name: p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    term = model.conv.weight.grad - released['conv.weight']
    alpha = model.conv.alpha.detach().view(-1, 1, 1, 1)
    expected = 2e-4 * (start['conv.weight'] - alpha * torch.where(start['conv.weight'] < 0, -1.0, 1.0))
    torch.testing.assert_close(term, expected, atol=1e-9, rtol=0)
    assert (model.conv.gamma == torch.tensor(2e-4)).all()
    resilient.detach()
