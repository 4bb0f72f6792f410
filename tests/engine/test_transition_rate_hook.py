import json
from types import SimpleNamespace

import pytest
import torch
from mmengine.optim import OptimWrapper

from rebnn_mm.engine import TransitionRateHook
from rebnn_mm.engine.transition_rate_hook import adapt_factor
from rebnn_mm.methods import BNNLinear
from tests.engine.small_runner import trained


def stepped(hook, layer, optimizer, gradients, rates):
    """Steps with given gradients and scheduled rates; the latent weights after each."""
    layers = {'layer': layer}
    hook.prepare(optimizer, layers)
    made = []
    for gradient, rate in zip(gradients, rates, strict=True):
        for group in optimizer.param_groups:
            group['lr'] = rate
        layer.weight.grad = gradient.clone()
        hook.before(optimizer, layers)
        optimizer.step()
        hook.after(optimizer, layers)
        assert [group['lr'] for group in optimizer.param_groups] == [rate]
        made.append(layer.weight.detach().clone())
    return made


def test_steps_are_those_of_the_formulas():
    torch.manual_seed(0)
    layer = BNNLinear(6, 5, bias=False).double()
    optimizer = torch.optim.SGD([layer.weight], lr=0.2)
    gradients = [torch.randn(5, 6, dtype=torch.float64) for _ in range(12)]
    rates = [0.2 * (1 - step / 12) for step in range(12)]
    hook = TransitionRateHook(target=0.3, momentum=0.75, speed=2.0)
    w = layer.weight.detach().clone()
    running, rate = 0.0, 0.2
    made = stepped(hook, layer, optimizer, gradients, rates)
    rates_met = set()
    for gradient, scheduled, found in zip(gradients, rates, made, strict=True):
        target = 0.3 * scheduled / 0.2
        rate = max(0.0, rate + 2.0 * 0.2 * (target - running))
        after = w - rate * gradient
        running = 0.75 * running + 0.25 * float(((after < 0) != (w < 0)).double().mean())
        w = after
        rates_met.add(round(rate, 12))
        torch.testing.assert_close(found, w, rtol=1e-12, atol=1e-12)
    assert hook.rate == pytest.approx(running, rel=1e-12) and running > 0
    assert len(rates_met) > 5


def test_the_rate_does_not_fall_below_zero():
    assert adapt_factor(0.1, target=0.0, rate=0.5, speed=1.0) == 0.0
    assert adapt_factor(0.0, target=0.5, rate=0.25, speed=2.0) == 0.5


def test_a_group_at_a_rate_of_zero_stays_there():
    moving, held = (BNNLinear(6, 5, bias=False) for _ in range(2))
    optimizer = torch.optim.SGD([dict(params=[moving.weight]), dict(params=[held.weight], lr=0.0)], lr=0.2)
    layers = dict(moving=moving, held=held)
    before = held.weight.detach().clone(), moving.weight.detach().clone()
    hook = TransitionRateHook()
    hook.prepare(optimizer, layers)
    for layer in layers.values():
        layer.weight.grad = torch.ones(5, 6)
    hook.before(optimizer, layers)
    optimizer.step()
    hook.after(optimizer, layers)
    assert torch.equal(held.weight, before[0]) and not torch.equal(moving.weight, before[1])


@pytest.mark.slow
def test_signs_change_as_often_as_asked(tmp_path):
    """At a rate at which hardly any sign moves, and at the share that is asked for."""
    still = dict(
        optimizer=dict(type='SGD', lr=1e-3), paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=False)))
    )
    hook = dict(type='TransitionRateHook', target=0.02, momentum=0.9, speed=500.0)
    changed = []
    for name, more in (('plain', []), ('asked', [hook])):
        runner = trained(
            tmp_path / name,
            epochs=60,
            optim_wrapper=still,
            custom_hooks=[dict(type='ReBNNHook'), *more, dict(type='BinaryWeightRecorderHook', layers=[])],
        )
        (log,) = tmp_path.glob(f'{name}/*/vis_data/binary_weights.jsonl')
        epochs = [json.loads(line)['layers'] for line in log.open()][-30:]
        layers = [layer for epoch in epochs for layer in epoch.values()]
        changed.append(
            sum(layer['flips'] for layer in layers) / sum(layer['weights'] * layer['steps'] for layer in layers)
        )
    assert changed[0] < 0.002 and changed[1] == pytest.approx(0.02, rel=0.25)
    assert runner.message_hub.get_scalar('train/transition_factor').current() > 1


def test_the_schedule_gets_its_rates_back_and_a_resumed_run_goes_on(tmp_path):
    hooks = [dict(type='ReBNNHook'), dict(type='TransitionRateHook', target=0.05, speed=3.0)]
    schedule = [dict(type='CosineAnnealingLR', T_max=4, by_epoch=True, convert_to_iter_based=True)]
    options = dict(epochs=4, param_scheduler=schedule)
    plain = trained(tmp_path / 'plain', **options)
    whole = trained(tmp_path / 'whole', custom_hooks=hooks, **options)
    assert whole.optim_wrapper.get_lr() == plain.optim_wrapper.get_lr()
    trained(tmp_path / 'parts', stop_after=2, custom_hooks=hooks, **options)
    resumed = trained(tmp_path / 'parts', resume=True, custom_hooks=hooks, **options)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


def test_a_second_training_begins_with_the_rate_of_the_config():
    layer = BNNLinear(6, 5, bias=False)
    wrapper = OptimWrapper(torch.optim.SGD([layer.weight], lr=0.2))
    hook = TransitionRateHook()
    for iteration, expected in ((3, (0.5, 7.0)), (0, (0.0, 1.0))):
        hook.rate, hook.factor = 0.5, 7.0  # as a training leaves them
        hook.before_train(SimpleNamespace(model=layer, optim_wrapper=wrapper, iter=iteration, max_iters=8))
        assert (hook.rate, hook.factor) == expected


def test_groups_without_roles_are_refused(tmp_path):
    hooks = [dict(type='ReBNNHook'), dict(type='TransitionRateHook')]
    with pytest.raises(ValueError, match='BinaryOptimWrapperConstructor'):
        trained(tmp_path, constructor=False, custom_hooks=hooks)


@pytest.mark.parametrize(
    ('options', 'words'),
    [(dict(target=0.0), 'target=0.0'), (dict(momentum=1.0), 'momentum=1.0'), (dict(speed=0.0), 'speed=0.0')],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        TransitionRateHook(**options)
