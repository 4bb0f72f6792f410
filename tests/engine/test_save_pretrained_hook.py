import pytest
import torch
from mmengine.evaluator import BaseMetric
from mmengine.runner import Runner

from rebnn_mm.engine import SavePretrainedHook
from rebnn_mm.models.language import TextClassifier, load_pretrained
from tests.engine.small_runner import SmallClassifier, runner_config
from tests.models.language.tiny import BINARY, tiny_batch, tiny_encoder


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp('bert'))


class Falling(BaseMetric):
    """A score that is best at the first evaluation."""

    value = 0.0

    def process(self, data_batch, data_samples):
        self.results.append(1)

    def compute_metrics(self, results):
        self.value -= 1.0
        return {'score': self.value}


def train(folder, work_dir, **more):
    inputs, samples = tiny_batch(folder)
    rows = [({key: value[i] for key, value in inputs.items()}, samples[i]) for i in range(2)]
    loader = dict(batch_size=2, num_workers=0, dataset=rows, sampler=dict(type='DefaultSampler', shuffle=False))
    loader['collate_fn'] = lambda batch: dict(
        inputs={key: torch.stack([row[key] for row, _ in batch]) for key in inputs},
        data_samples=[sample for _, sample in batch],
    )
    torch.manual_seed(0)
    runner = Runner(
        model=TextClassifier(folder, **BINARY),
        work_dir=str(work_dir),
        experiment_name=f'{work_dir.name}_{work_dir.parent.name}',
        train_dataloader=loader,
        train_cfg=dict(by_epoch=True, max_epochs=2, val_interval=1),
        optim_wrapper=dict(optimizer=dict(type='AdamW', lr=1e-3)),
        **{'custom_hooks': [dict(type='ReBNNHook'), dict(type='SavePretrainedHook')], **more},
        **(dict(val_dataloader=loader, val_cfg=dict(), val_evaluator=[Falling()]) if 'default_hooks' in more else {}),
    )
    runner.train()
    return runner


def test_the_last_weights_are_written(folder, tmp_path):
    model = train(folder, tmp_path).model.eval()
    written = load_pretrained(str(tmp_path / 'pretrained'))
    inputs, _ = tiny_batch(folder)
    assert torch.equal(written(inputs), model(inputs))
    assert (tmp_path / 'pretrained' / 'tokenizer.json').is_file()


def test_averaged_weights_are_written_where_the_checkpoint_has_them(folder, tmp_path):
    hooks = [dict(type='ReBNNHook'), dict(type='EMAHook', momentum=0.5), dict(type='SavePretrainedHook')]
    model = train(folder, tmp_path, custom_hooks=hooks).model
    averaged = torch.load(tmp_path / 'epoch_2.pth', weights_only=False)['state_dict']
    written = load_pretrained(str(tmp_path / 'pretrained')).state_dict()
    assert all(torch.equal(written[key], value) for key, value in averaged.items())
    assert any(not torch.equal(value, averaged[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize('rule', ['score', ['score']])
def test_the_best_weights_are_written_and_the_last_ones_stay(folder, tmp_path, rule):
    hooks = dict(checkpoint=dict(type='CheckpointHook', interval=1, save_best=rule, rule='greater'))
    model = train(folder, tmp_path, default_hooks=hooks).model
    first, last = (torch.load(tmp_path / f'epoch_{epoch}.pth', weights_only=False)['state_dict'] for epoch in (1, 2))
    written = load_pretrained(str(tmp_path / 'pretrained')).state_dict()
    assert all(torch.equal(written[key], value) for key, value in first.items())
    assert all(torch.equal(model.state_dict()[key], value) for key, value in last.items())
    assert any(not torch.equal(first[key], value) for key, value in last.items())


def test_another_model_is_refused_before_training(tmp_path):
    runner = Runner(**runner_config(tmp_path, hook='SavePretrainedHook'), model=SmallClassifier())
    with pytest.raises(TypeError, match=r'writes a rebnn_mm.TextClassifier, but the model is a SmallClassifier'):
        runner.train()


def test_folder_is_an_option():
    assert SavePretrainedHook(folder='teacher').folder == 'teacher'
