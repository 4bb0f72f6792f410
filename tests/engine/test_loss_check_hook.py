from types import SimpleNamespace

import pytest
import torch

from rebnn_mm.engine import LossCheckHook
from tests.engine.small_runner import SmallClassifier, trained


class Growing(SmallClassifier):
    """A loss that is multiplied from one of its steps on."""

    def __init__(self, factor, step):
        super().__init__()
        self.factor, self.step, self.steps = factor, step, 0

    def forward(self, inputs, labels, mode='tensor'):
        losses = super().forward(inputs, labels, mode)
        self.steps += 1
        return {'loss': losses['loss'] * (self.factor if self.steps > self.step else 1)}


def run(work_dir, factor, **options):
    model = Growing(factor, step=7)
    return trained(work_dir, model, hook=LossCheckHook(interval=2), constructor=False, **options)


@pytest.mark.parametrize(('factor', 'shown'), [(float('nan'), 'nan'), (float('inf'), 'inf'), (1e6, r'\d\.\d+e\+0\d')])
def test_a_lost_loss_ends_the_training_with_what_to_try(tmp_path, factor, shown):
    sentence = rf'^the loss is {shown} at step 8( \(loss\))?\. Try a lower rate .*optimizer\.lr=0\.005'
    with pytest.raises(ValueError, match=sentence) as stopped:
        run(tmp_path / 'run', factor)
    assert 'clip_grad.max_norm=35' in str(stopped.value)
    last = tmp_path / 'run/epoch_1.pth'
    assert str(stopped.value).endswith(f'; the last good checkpoint is {last}.')
    state = torch.load(last, weights_only=False)['state_dict']
    assert all(value.isfinite().all() for value in state.values())


def test_a_second_training_is_measured_by_its_own_first_loss():
    hook, runner = LossCheckHook(interval=1), SimpleNamespace(iter=0)
    for loss in (1.0, 2e4):
        hook.before_train(runner)
        hook.after_train_iter(runner, 0, outputs={'loss': torch.tensor(loss)})
    assert hook.first == 2e4


def test_what_is_done_already_is_not_proposed(tmp_path):
    wrapper = dict(optimizer=dict(type='SGD', lr=0.05), clip_grad=dict(max_norm=35))
    with pytest.raises(ValueError, match='the loss is nan') as stopped:
        run(tmp_path / 'run', float('nan'), optim_wrapper=wrapper)
    assert 'clip_grad' not in str(stopped.value)


def test_a_loss_that_grows_and_stays_low_goes_on(tmp_path):
    assert run(tmp_path / 'run', 1e3).iter == 8
