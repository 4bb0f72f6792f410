import copy
import json

import pytest
import torch
from mmengine.model import BaseDataPreprocessor
from torch import nn

from rebnn_mm.engine.gradient_share_hook import GradientShareHook, gradient_norms
from tests.engine.small_runner import SmallClassifier, runner_config, trained


def model():
    torch.manual_seed(0)
    return SmallClassifier()


def test_norms_are_those_of_each_loss_alone():
    torch.manual_seed(0)
    parts = {'first': nn.Linear(3, 4), 'second': nn.Linear(4, 1), 'other': nn.Linear(2, 2), 'none': nn.ReLU()}
    parts['frozen'] = nn.Linear(2, 2).requires_grad_(False)
    y = parts['second'](parts['first'](torch.randn(5, 3)))
    losses = {'loss_a': y.square().mean(), 'loss_b': [y.sum(), 2 * y.sum()], 'accuracy': y.sum()}
    found = gradient_norms(losses, parts)
    assert found.keys() == {f'{loss}/{part}' for loss in ('loss_a', 'loss_b') for part in parts}
    for name, loss in (('loss_a', losses['loss_a']), ('loss_b', 3 * y.sum())):
        for part in ('first', 'second'):
            gradients = torch.autograd.grad(loss, list(parts[part].parameters()), retain_graph=True)
            expected = torch.cat([g.flatten() for g in gradients]).norm()
            assert found[f'{name}/{part}'] == pytest.approx(float(expected), rel=1e-5)
        assert all(found[f'{name}/{part}'] == 0 for part in ('other', 'none', 'frozen'))


def test_training_is_the_same_and_the_log_has_the_norms(tmp_path):
    plain = trained(tmp_path / 'plain', model())
    hook = dict(type='GradientShareHook', parts=['stem', 'head'], interval=4)
    watched = trained(tmp_path / 'watched', model(), custom_hooks=[dict(type='ReBNNHook'), hook])
    for name, value in plain.model.state_dict().items():
        assert torch.equal(watched.model.state_dict()[name], value), name
    lines = [json.loads(line) for path in tmp_path.rglob('watched/**/scalars.json') for line in path.open()]
    logged = [line['gradient/all/stem'] for line in lines if 'gradient/all/stem' in line]
    assert logged and all(value > 0 for value in logged)


def test_the_log_has_what_was_measured_last(tmp_path):
    """mmengine's log averages what has the word loss in its name."""
    hook = dict(type='GradientShareHook', parts=['stem'], interval=2)
    runner = trained(tmp_path, model(), custom_hooks=[hook])
    history, counts = runner.message_hub.get_scalar('train/gradient/all/stem').data
    assert len(set(history.tolist())) > 1 and counts.any()
    lines = [json.loads(line) for path in tmp_path.rglob('scalars.json') for line in path.open()]
    (*_, logged) = [line['gradient/all/stem'] for line in lines if 'gradient/all/stem' in line]
    assert logged == pytest.approx(history[-1], rel=1e-5)


@pytest.mark.parametrize(
    ('options', 'words'), [(dict(parts='stem'), r"parts=\['stem'\]"), (dict(interval=0), '1 or more')]
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        GradientShareHook(**options)


class Doubling(BaseDataPreprocessor):
    """Writes into the batch and remembers, as mmdet's and mmpretrain's may."""

    times = 0

    def forward(self, data, training=False):
        self.times += 1
        for image in data['inputs']:
            image.mul_(2)
        return super().forward(data, training)


def test_the_batch_and_the_preprocessor_stay(tmp_path):
    found = []
    for name, hooks in (('plain', []), ('watched', [dict(type='GradientShareHook', parts=['head'], interval=2)])):
        network = model()
        network.data_preprocessor = Doubling()
        images = [dict(inputs=torch.full((3, 8, 8), i / 8), labels=torch.tensor(i % 3)) for i in range(16)]
        loader = {**runner_config(tmp_path)['train_dataloader'], 'dataset': copy.deepcopy(images)}
        trained(
            tmp_path / name,
            network,
            custom_hooks=[dict(type='BinaryHook', calibrate=False), *hooks],
            train_dataloader=loader,
        )
        found.append((network.data_preprocessor.times, network.state_dict()))
    assert found[0][0] == found[1][0] == 8
    assert all(torch.equal(value, found[1][1][name]) for name, value in found[0][1].items())


def test_a_part_that_is_not_there_is_named(tmp_path):
    hook = dict(type='GradientShareHook', parts=['neck'])
    with pytest.raises(ValueError, match=r"no part 'neck'\. Name one of its modules: .*stem, conv1"):
        trained(tmp_path, model(), custom_hooks=[dict(type='ReBNNHook'), hook])
