import copy
import json
import os
from pathlib import Path

import pytest
import torch
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement
from torch.utils.data import Dataset
from transformers import AutoModel, AutoModelForSequenceClassification

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.models.language import TextClassifier
from rebnn_mm.registry import MODELS
from tests.models.language.tiny import BINARY, SIZES_OF, tiny_batch, tiny_encoder
from tests.tolerances import FLOAT32_ROUNDING


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp('bert'))


def build(folder, **options):
    torch.manual_seed(0)
    return MODELS.build(dict(type='rebnn_mm.TextClassifier', encoder=folder, **options))


def test_real_one_is_the_model_of_transformers(folder):
    model = build(folder, num_labels=3).eval()
    plain = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3).eval()
    plain.classifier.load_state_dict(model.encoder.classifier.state_dict())
    inputs, _ = tiny_batch(folder)
    assert torch.equal(model(inputs), plain(**inputs).logits)
    assert {key.removeprefix('encoder.') for key in model.state_dict()} == set(plain.state_dict())


def test_loss_is_cross_entropy_and_predictions_are_logits(folder):
    model = build(folder, **BINARY).eval().requires_grad_(False)
    inputs, samples = tiny_batch(folder)
    logits = model(inputs)
    loss = model(inputs, samples, mode='loss')
    assert loss.keys() == {'loss'}
    by_hand = -logits.log_softmax(1)[[0, 1], [0, 1]].mean()
    torch.testing.assert_close(loss['loss'], by_hand, atol=FLOAT32_ROUNDING, rtol=0)
    predicted = model(inputs, samples, mode='predict')
    assert [sample.sample_idx for sample in predicted] == [0, 1]
    assert torch.equal(torch.stack([sample.pred_score for sample in predicted]), logits)
    assert [int(sample.gt_label) for sample in predicted] == [0, 1]


def test_one_label_is_a_regression(folder):
    model = build(folder, num_labels=1, **BINARY).eval()
    inputs, samples = tiny_batch(folder, labels=[2.5, 4.0])
    by_hand = (model(inputs).flatten() - torch.tensor([2.5, 4.0])).square().mean()
    torch.testing.assert_close(model(inputs, samples, mode='loss')['loss'], by_hand)
    assert model(inputs, samples, mode='predict')[0].pred_score.shape == (1,)


def test_encode_shows_what_the_losses_compare(folder):
    model = build(folder, **BINARY).eval()
    inputs, _ = tiny_batch(folder)
    out = model.encode(inputs)
    assert torch.equal(out.logits, model(inputs))
    assert [state.shape for state in out.hidden_states] == [(2, 11, 32)] * 3
    assert [record.value.shape for record in out.attention] == [(2, 2, 11, 16)] * 2
    assert torch.equal(out.mask, inputs['attention_mask'] == 1)


def test_new_model_is_in_training_mode(folder):
    model = build(folder, **BINARY)
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize('kind', list(SIZES_OF))
def test_every_architecture_takes_a_step(kind, tmp_path):
    folder = tiny_encoder(tmp_path, kind)
    model = build(folder, **BINARY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ResilientGradient(model).attach(optimizer)
    inputs, samples = tiny_batch(folder)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    loss = model(inputs, samples, mode='loss')['loss']
    loss.backward()
    optimizer.step()
    still = [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
    assert still == [] and loss.isfinite()


def test_encoder_options_change_the_architecture(folder):
    model = build(folder, encoder_options=dict(num_hidden_layers=1, hidden_act='relu'))
    assert len(model.encoder.bert.encoder.layer) == 1
    assert isinstance(model.encoder.bert.encoder.layer[0].intermediate.intermediate_act_fn, torch.nn.ReLU)


def test_without_pretrained_weights_are_random(folder):
    loaded, random = build(folder), build(folder, pretrained=False)
    torch.manual_seed(1)
    other = TextClassifier(folder, pretrained=False)
    words = [model.encoder.bert.embeddings.word_embeddings.weight for model in (loaded, random, other)]
    assert torch.equal(words[0], AutoModel.from_pretrained(folder).embeddings.word_embeddings.weight)
    assert not torch.equal(words[1], words[2])


def test_weights_are_read_in_single_precision(folder, tmp_path):
    half = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
    half.save_pretrained(tmp_path)
    assert {p.dtype for p in build(str(tmp_path), **BINARY).parameters()} == {torch.float32}


def test_autocast_checkpointing_and_copies(folder):
    model = build(folder, **BINARY).eval()
    inputs, samples = tiny_batch(folder)
    logits = model(inputs)
    assert torch.equal(copy.deepcopy(model)(inputs), logits)
    with torch.autocast('cpu', torch.bfloat16):
        assert model(inputs).isfinite().all()
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        model.zero_grad()
        model.train()
        if checkpointing:
            model.encoder.gradient_checkpointing_enable()
        model(inputs, samples, mode='loss')['loss'].backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_autocast_trains(folder):
    model = build(folder, **BINARY)
    inputs, samples = tiny_batch(folder)
    with torch.autocast('cpu', torch.bfloat16):
        loss = model(inputs, samples, mode='loss')['loss']
    loss.backward()
    assert loss.dtype == torch.float32 and all(p.grad.isfinite().all() for p in model.parameters())


class Texts(Dataset):
    """Eight tokenized texts."""

    def __init__(self, folder):
        texts = ['a good film', 'a bad film', 'great plot', 'dull plot', 'very fun', 'not fun', 'bright', 'dark']
        self.inputs, self.samples = tiny_batch(folder, texts)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return {key: value[index] for key, value in self.inputs.items()}, self.samples[index]


def collate(rows):
    return dict(
        inputs={key: torch.stack([inputs[key] for inputs, _ in rows]) for key in rows[0][0]},
        data_samples=[sample for _, sample in rows],
    )


def run(folder, work_dir, iterations=2, lr=1e-3, model=None, hooks=(), **more):
    loader = dict(batch_size=4, num_workers=0, collate_fn=collate, sampler=dict(type='DefaultSampler', shuffle=True))
    runner = Runner(
        model=model or build(folder, **BINARY),
        work_dir=str(work_dir),
        train_dataloader=dict(dataset=Texts(folder), **loader),
        train_cfg=dict(type='IterBasedTrainLoop', max_iters=iterations),
        optim_wrapper=dict(constructor='BinaryOptimWrapperConstructor', optimizer=dict(type='AdamW', lr=lr)),
        custom_hooks=[dict(type='ReBNNHook'), dict(type='IterSeedHook'), *hooks],
        default_hooks=dict(checkpoint=dict(type='CheckpointHook', interval=2, by_epoch=False)),
        randomness=dict(seed=0, deterministic=True),
        experiment_name=work_dir.name,
        **more,
    )
    runner.train()
    return runner


def test_the_runner_keeps_the_encoders_weights(folder, tmp_path):
    """mmengine calls ``init_weights`` before training, and so would reach that of transformers."""
    model = build(folder, **BINARY)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    run(folder, tmp_path / 'still', lr=0.0, model=model)
    after = model.state_dict()
    changed = [key for key, value in before.items() if not torch.equal(after[key], value)]
    assert all(key.endswith('gamma') for key in changed)


def test_the_hook_starts_shifts_from_a_batch(folder, tmp_path):
    """Without ``shift=None`` a layer has one per input channel; each sees its own input once before the first step."""
    options = dict(BINARY, binarize=dict(linear=dict(type='ReBNNLinear', center='row')))
    model = build(folder, **options)
    seen = {}
    intermediate = model.encoder.bert.encoder.layer[0].intermediate.dense
    handle = intermediate.register_forward_pre_hook(lambda module, args: seen.setdefault('x', args[0].detach()))
    run(folder, tmp_path / 'shifts', lr=0.0, model=model)
    handle.remove()
    shift = intermediate.activation_quantizer.shift
    torch.testing.assert_close(shift.detach(), -seen['x'].mean((0, 1)), atol=FLOAT32_ROUNDING, rtol=0)
    assert shift.abs().max() > 0.01


def test_flips_of_every_binary_layer_are_recorded(folder, tmp_path):
    runner = run(folder, tmp_path / 'flips', lr=1e-2, hooks=[dict(type='BinaryWeightRecorderHook')])
    record = next(Path(runner.log_dir).rglob('binary_weights.jsonl')).read_text().splitlines()
    layers = json.loads(record[-1])['layers']
    assert len(layers) == 14 and 'encoder.bert.embeddings.word_embeddings' in layers
    assert all(counts['steps'] == 2 for counts in layers.values())
    assert sum(counts['flips'] for counts in layers.values()) > 0


def test_a_resumed_run_is_bit_equal(folder, tmp_path):
    whole = run(folder, tmp_path / 'whole', 4)
    run(folder, tmp_path / 'parts', 2)
    resumed = run(folder, tmp_path / 'parts', 4, resume=True)
    assert resumed.iter == 4
    expected = whole.model.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in resumed.model.state_dict().items())


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (
            dict(encoder_options=dict(hiden_act='relu')),
            "BertConfig has no entry 'hiden_act'. Did you mean 'hidden_act'?",
        ),
        (dict(num_labels=0), 'num_labels=0 must be the number of classes'),
        (dict(encoder_options=dict(num_labels=3)), 'num_labels=3 must .* be next to encoder_options'),
        (dict(binarize=dict(liner={})), "binarize: no option 'liner'. Did you mean 'linear'?"),
        (dict(attention=dict(type='Softmax')), 'its type is not a registered attention'),
    ],
)
def test_wrong_option_is_named(folder, options, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier(folder, **options)


def test_no_such_encoder(folder, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r'there is no config.json in this directory'):
        TextClassifier(str(tmp_path))
    for path in ('./nowhere', '/nowhere/bert', 'work_dirs/teacher/pretrained'):
        with pytest.raises(ValueError, match=f'encoder={path!r}: there is no such directory'):
            TextClassifier(path)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    with pytest.raises(ValueError, match="encoder='no-such-bert' is not a local directory, and could not be"):
        TextClassifier('no-such-bert')


def test_directory_without_weights(folder, tmp_path):
    with open(os.path.join(folder, 'config.json')) as file:
        (tmp_path / 'config.json').write_text(file.read())
    with pytest.raises(ValueError, match='Give the|give the'):
        TextClassifier(str(tmp_path))
    TextClassifier(str(tmp_path), pretrained=False)


def test_config_that_is_no_json(tmp_path):
    (tmp_path / 'config.json').write_text('{')
    with pytest.raises(ValueError, match=r'config.json'):
        TextClassifier(str(tmp_path))


def test_head_of_another_task_is_named(folder, tmp_path):
    build(folder, num_labels=3).encoder.save_pretrained(tmp_path)
    assert json.loads((tmp_path / 'config.json').read_text())['id2label']['2']
    with pytest.raises(ValueError, match=r'do not fit num_labels=2 .*fine-tuned for another task'):
        TextClassifier(str(tmp_path), num_labels=2)


def test_labels_that_are_no_classes_are_named(folder):
    model = build(folder)
    inputs, samples = tiny_batch(folder, labels=[0, 2])
    with pytest.raises(ValueError, match='num_labels=2, but labels are up to 2'):
        model(inputs, samples, mode='loss')
    inputs, samples = tiny_batch(folder, labels=[0.5, 2.0])
    with pytest.raises(ValueError, match='num_labels=2, but labels are real numbers'):
        model(inputs, samples, mode='loss')


def test_labels_on_an_accelerator_are_not_waited_for(folder):
    """A meta tensor has no value, so whatever asks for one fails."""
    model = build(folder)
    logits = torch.zeros(2, 2, device='meta', requires_grad=True)
    for device in ('meta', 'cpu'):
        samples = [BaseDataElement(gt_label=torch.tensor(label, device=device)) for label in (0, 1)]
        model.label_loss(logits, samples).backward()
    assert logits.grad.shape == logits.shape


def test_wrong_mode_is_named(folder):
    model = build(folder)
    inputs, samples = tiny_batch(folder)
    with pytest.raises(ValueError, match="mode='train' is unknown; use 'tensor', 'loss' or 'predict'"):
        model(inputs, samples, mode='train')
    with pytest.raises(ValueError, match="mode='loss' needs data_samples"):
        model(inputs, mode='loss')
    assert isinstance(samples[0], BaseDataElement)
