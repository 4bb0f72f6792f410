"""When BiDet's losses start, in real runs."""

from types import SimpleNamespace

import pytest
import torch

from rebnn_mm.engine import BiDetLossHook
from rebnn_mm.engine.bidet_hook import CHECKPOINT_KEY
from rebnn_mm.models.losses import BiDetLoss
from tests.engine.small_runner import SmallClassifier, log_text, trained

STEPS = [{'type': 'MultiStepLR', 'milestones': [2, 3], 'gamma': 0.1}]
WARM_UP = {'type': 'LinearLR', 'start_factor': 0.01, 'by_epoch': False, 'begin': 0, 'end': 5}


class Classifier(SmallClassifier):
    """Notes for every training step whether the losses are on."""

    def __init__(self):
        super().__init__()
        self.bottleneck = BiDetLoss(regularisation=0.1, prior=0.1)
        self.seen = []

    def forward(self, inputs, labels, mode='tensor'):
        losses = super().forward(inputs, labels, mode)
        if mode == 'loss':
            self.seen.append(self.bottleneck.active)
            if self.bottleneck.active:
                losses |= self.bottleneck([self.head.weight], [])
        return losses


def run(work_dir, epochs=4, schedule=STEPS, hook=None, **options):
    """Epochs have four iterations."""
    torch.manual_seed(0)
    hooks = {
        'custom_hooks': [{'type': 'ReBNNHook', 'calibrate': False}, {'type': 'BiDetLossHook', **(hook or {})}],
        'default_hooks': {
            'checkpoint': {'type': 'CheckpointHook', 'interval': 1},
            'logger': {'type': 'LoggerHook', 'interval': 2},
        },
    }
    runner = trained(work_dir, Classifier(), epochs=epochs, param_scheduler=schedule, **hooks, **options)
    return runner, runner.model.seen


def test_losses_start_with_the_first_decay(tmp_path):
    _, seen = run(tmp_path / 'run')
    assert seen == [False] * 8 + [True] * 8
    text = log_text(tmp_path / 'run')
    assert 'losses switched on at iteration 8 (epoch 2) in 1 head: ' in text
    assert 'the learning rate fell from 0.05 to 0.005.' in text
    assert 'loss_information' in text


def test_warm_up_is_no_decay(tmp_path):
    _, seen = run(tmp_path / 'run', schedule=[WARM_UP, *STEPS])
    assert seen == [False] * 8 + [True] * 8


def test_cosine_switches_half_way_down(tmp_path):
    cosine = {'type': 'CosineAnnealingLR', 'by_epoch': False, 'begin': 4, 'T_max': 12, 'end': 16}
    _, seen = run(tmp_path / 'run', schedule=[WARM_UP, cosine])
    assert seen == [False] * 10 + [True] * 6


@pytest.mark.parametrize(
    ('hook', 'first'),
    [({'start': 0}, 0), ({'start': 3}, 12), ({'start': 6, 'by_epoch': False}, 6), ({'start': 9}, 16)],
    ids=str,
)
def test_start_says_when(tmp_path, hook, first):
    _, seen = run(tmp_path / 'run', schedule=[], hook=hook)
    assert seen == [False] * first + [True] * (16 - first)


@pytest.mark.parametrize('epochs', [1, 2, 3])
@pytest.mark.parametrize('schedule', [STEPS, [WARM_UP, *STEPS]], ids=['steps', 'warm-up'])
def test_resumed_run_is_the_whole_run(tmp_path, epochs, schedule):
    whole, seen = run(tmp_path / 'whole', schedule=schedule)
    _, first = run(tmp_path / 'parts', stop_after=epochs, schedule=schedule)
    resumed, second = run(tmp_path / 'parts', schedule=schedule, resume=True)
    assert first + second == seen
    for name, value in resumed.model.state_dict().items():
        assert torch.equal(value, whole.model.state_dict()[name]), name


def test_plateau_travels_in_the_checkpoint(tmp_path):
    run(tmp_path / 'run', epochs=1)
    saved = torch.load(tmp_path / 'run' / 'epoch_1.pth', weights_only=False)[CHECKPOINT_KEY]
    assert saved == {'active': False, 'highest': 0.05}


def test_loading_weights_begins_without_the_losses(tmp_path):
    run(tmp_path / 'first', epochs=3)
    _, seen = run(tmp_path / 'second', epochs=1, load_from=str(tmp_path / 'first' / 'epoch_3.pth'))
    assert seen == [False] * 4


def test_a_second_training_begins_without_the_losses():
    hook, loss = BiDetLossHook(), BiDetLoss(regularisation=0.1, prior=0.1)
    hook.active, hook.highest = True, 0.1  # as a training leaves them
    hook.before_train(SimpleNamespace(model=loss, iter=3))
    assert loss.active
    hook.before_train(SimpleNamespace(model=loss, iter=0))
    assert not hook.active and not loss.active and hook.highest == 0


def test_model_without_the_losses_is_named(tmp_path):
    torch.manual_seed(0)
    trained(tmp_path / 'run', SmallClassifier(), epochs=1, custom_hooks=[{'type': 'BiDetLossHook'}])
    assert 'BiDetLossHook: the model has no BiDetLoss. Use rebnn_mm.BiDetRPNHead' in log_text(tmp_path / 'run')


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'decay': 1.0}, 'decay=1.0 must be between 0 and 1'),
        ({'decay': 0}, 'decay=0 must be'),
        ({'start': -1}, 'start=-1 must be at least 0'),
    ],
)
def test_wrong_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        BiDetLossHook(**options)


def test_start_in_epochs_needs_epochs(tmp_path):
    with pytest.raises(ValueError, match='start=1 counts epochs, and this train loop has none. Use by_epoch=False'):
        run(tmp_path / 'run', schedule=[], hook={'start': 1}, train_cfg={'by_epoch': False, 'max_iters': 4})
