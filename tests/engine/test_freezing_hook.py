import json
from types import SimpleNamespace

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from torch import nn

from rebnn_mm.engine import FreezingHook, ReBNNHook
from rebnn_mm.engine.freezing_hook import SignTracker
from rebnn_mm.methods import BNNLinear, ReCUConv2d
from tests.engine.small_runner import SmallClassifier, trained


def by_hand(values, momentum, threshold):
    """One weight, written out: what it is after each step."""
    sign = 1 if values[0] >= 0 else -1
    average, frequency, changed, held = float(sign), 0.0, False, None
    found = []
    for value in values[1:]:
        value = value if held is None else held
        now = 1 if value >= 0 else -1
        frequency = momentum * (now != sign and changed) + (1 - momentum) * frequency
        changed = changed or now != sign
        if held is None and frequency > threshold:
            held = abs(value) * (-1 if average < 0 else 1)
        average = momentum * now + (1 - momentum) * average
        value = value if held is None else held
        sign = 1 if value >= 0 else -1
        found.append(value)
    return found, held is not None


def test_tracking_is_that_of_the_formulas():
    torch.manual_seed(0)
    columns = torch.randn(60, 15, dtype=torch.float64) * 0.3 + torch.linspace(-1, 1, 60, dtype=torch.float64)[:, None]
    weight = columns[:, 0].clone()
    tracker = SignTracker(weight, momentum=0.2)
    made = []
    for step in range(1, 15):
        weight.copy_(columns[:, step])
        tracker.step(weight, threshold=0.3)
        made.append(weight.clone())
    for index, values in enumerate(columns.tolist()):
        expected, frozen = by_hand(values, 0.2, 0.3)
        assert torch.stack(made)[:, index].tolist() == pytest.approx(expected, rel=1e-12)
        assert bool(tracker.frozen[index]) == frozen
    assert 0 < int(tracker.frozen.sum()) < 60


def test_frozen_weights_stay_and_a_resumed_run_goes_on(tmp_path):
    hook = dict(type='FreezingHook', threshold=0.05, final=0.02, momentum=0.1)
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.5, momentum=0.9))
    options = dict(epochs=6, custom_hooks=[dict(type='ReBNNHook'), hook], optim_wrapper=optim_wrapper)
    whole = trained(tmp_path / 'whole', **options)
    stopped = trained(tmp_path / 'parts', stop_after=3, **options)
    early = tracker_of(stopped)
    frozen, held = early.frozen.clone(), early.held.clone()
    assert 0 < int(frozen.sum()) < frozen.numel()
    resumed = trained(tmp_path / 'parts', resume=True, **options)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name
    assert torch.equal(resumed.model.conv1.weight.detach()[frozen], held[frozen])
    assert int(tracker_of(resumed).frozen.sum()) > int(frozen.sum())


def test_a_second_training_begins_without_what_the_first_had_frozen():
    state = SignTracker(torch.ones(5, 6), 0.1).state_dict() | dict(frozen=torch.ones(5, 6, dtype=torch.bool))
    hook, frozen = FreezingHook(), []
    hook._saved = {'0': state}  # of a checkpoint that the first training goes on from
    for net in (
        nn.Sequential(BNNLinear(6, 5)),
        nn.Sequential(BNNLinear(6, 5)),
        nn.ModuleDict({'fc': BNNLinear(6, 5)}),
    ):
        wrapper = OptimWrapper(torch.optim.SGD(net.parameters(), lr=0.1))
        hook.before_train(SimpleNamespace(model=net, optim_wrapper=wrapper, iter=0, max_iters=8, hooks=[]))
        frozen.append({name: bool(tracker.frozen.any()) for name, tracker in hook._trackers.items()})
    assert frozen == [{'0': True}, {'0': False}, {'fc': False}]


class Signs(Hook):
    """Counts the signs that iterations leave changed."""

    priority = 'LOWEST'

    def before_train(self, runner):
        self.negative, self.flips = runner.model.conv1.weight < 0, 0

    def after_train_iter(self, runner, *args, **kwargs):
        before, self.negative = self.negative, runner.model.conv1.weight < 0
        self.flips += int((before ^ self.negative).sum())


def test_signs_that_are_put_back_are_not_recorded_as_flips(tmp_path):
    kinds = 'ReBNNHook', 'BinaryWeightRecorderHook', 'FreezingHook'
    hooks = [dict(type=kind, **(dict(threshold=0.005) if kind == 'FreezingHook' else {})) for kind in kinds]
    signs = Signs()
    runner = trained(
        tmp_path, epochs=6, custom_hooks=[*hooks, signs], optim_wrapper=dict(optimizer=dict(type='SGD', lr=2.0))
    )
    (record,) = tmp_path.glob('*/vis_data/binary_weights.jsonl')
    epochs = [json.loads(line)['layers'] for line in record.open()][1:]
    assert tracker_of(runner).frozen.any()
    assert sum(layers['conv1']['flips'] for layers in epochs) == signs.flips > 0
    (rebnn,) = (each for each in runner.hooks if isinstance(each, ReBNNHook))
    assert rebnn.resilient.layers[0].all_flips == signs.flips


def test_the_transition_rate_is_that_of_signs_that_stay_changed(tmp_path):
    freezing = dict(type='FreezingHook', threshold=0.005)
    transition = dict(type='TransitionRateHook', target=0.02, speed=20.0)
    rates = []
    for name, hooks in (('after', [freezing, transition]), ('before', [transition, freezing])):
        runner = trained(
            tmp_path / name,
            epochs=6,
            custom_hooks=[dict(type='ReBNNHook'), *hooks],
            optim_wrapper=dict(optimizer=dict(type='SGD', lr=2.0)),
        )
        assert tracker_of(runner).frozen.any()
        rates.append(runner.message_hub.get_scalar('train/transition_rate').data[0].tolist())
    assert rates[0] == rates[1]


def tracker_of(runner):
    (hook,) = (each for each in runner.hooks if isinstance(each, FreezingHook))
    return hook._trackers['conv1']


def test_signs_of_centred_weights_are_refused(tmp_path):
    hooks = [dict(type='BinaryHook'), dict(type='FreezingHook')]
    with pytest.raises(ValueError, match='not those of its latent weights'):
        trained(tmp_path, SmallClassifier(ReCUConv2d), custom_hooks=hooks)


@pytest.mark.parametrize('options', [dict(threshold=0.0), dict(final=2.0), dict(momentum=0.0)])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        FreezingHook(**options)
