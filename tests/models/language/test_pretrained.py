import json

import pytest
import torch
from mmengine.config import ConfigDict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.models.language import TextClassifier, load_pretrained, save_pretrained
from tests.models.language.tiny import BINARY, SIZES_OF, tiny_batch, tiny_encoder


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp('bert'))


def trained(folder, **options):
    """A binary model whose factors, gamma and weights have left their starting values."""
    torch.manual_seed(0)
    model = TextClassifier(folder, **{**BINARY, **options})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ResilientGradient(model).attach(optimizer)
    inputs, samples = tiny_batch(folder)
    for _ in range(3):
        model(inputs, samples, mode='loss')['loss'].backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@pytest.mark.parametrize('kind', list(SIZES_OF))
def test_round_trip_is_bit_equal(kind, tmp_path):
    folder = tiny_encoder(tmp_path / 'encoder', kind)
    model = trained(folder, num_labels=3)
    save_pretrained(model, str(tmp_path / 'saved'))
    again = load_pretrained(str(tmp_path / 'saved'))
    inputs, _ = tiny_batch(folder)
    assert torch.equal(again(inputs), model(inputs))
    state, loaded = model.state_dict(), again.state_dict()
    assert state.keys() == loaded.keys() and all(torch.equal(loaded[key], value) for key, value in state.items())
    assert not again.training and again.num_labels == 3 and again.conversion == model.conversion


def test_transformers_reads_the_latent_weights(folder, tmp_path):
    model = trained(folder)
    save_pretrained(model, str(tmp_path))
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path).state_dict()
    state = model.encoder.state_dict()
    assert plain and all(torch.equal(state[key], value) for key, value in plain.items())


def test_the_tokenizer_comes_along(folder, tmp_path):
    save_pretrained(TextClassifier(folder), str(tmp_path))
    text = 'a very Zebra film .'
    assert AutoTokenizer.from_pretrained(tmp_path)(text) == AutoTokenizer.from_pretrained(folder)(text)


def test_without_a_tokenizer_the_model_is_written(folder, tmp_path):
    bare = tmp_path / 'bare'
    AutoModelForSequenceClassification.from_pretrained(folder).save_pretrained(bare)
    model = TextClassifier(str(bare), **BINARY).eval()
    save_pretrained(model, str(tmp_path / 'saved'))
    inputs, _ = tiny_batch(folder)
    assert torch.equal(load_pretrained(str(tmp_path / 'saved'))(inputs), model(inputs))


def test_options_come_back_with_their_effect(folder, tmp_path):
    """JSON sorts names and knows no tuples; a config of mmengine has dicts of its own kind."""
    options = ConfigDict(
        binarize=dict(
            linear=dict(type='ReBNNLinear', gamma_bounds=(1e-6, 1e-3), activation=dict(type='BinarySign')),
            overrides={'query': dict(gamma='max'), 'layer.1.attention.self.query': dict(gamma=0.5)},
            keep_real=('pooler',),
        ),
        attention=dict(type='BinaryAttention', tie=False),
    )
    model = TextClassifier(folder, **options).eval()
    save_pretrained(model, str(tmp_path))
    again = load_pretrained(str(tmp_path))
    assert repr(again) == repr(model)
    inputs, _ = tiny_batch(folder)
    assert torch.equal(again(inputs), model(inputs))


def test_regression_and_encoder_options_come_back(folder, tmp_path):
    model = trained(folder, num_labels=1, encoder_options=dict(num_hidden_layers=1, hidden_act='relu'))
    save_pretrained(model, str(tmp_path))
    again = load_pretrained(str(tmp_path))
    inputs, _ = tiny_batch(folder)
    assert again.num_labels == 1 and torch.equal(again(inputs), model(inputs))


def test_a_real_one_is_a_start_and_a_teacher(folder, tmp_path):
    model = TextClassifier(folder).eval()
    save_pretrained(model, str(tmp_path))
    inputs, _ = tiny_batch(folder)
    assert torch.equal(load_pretrained(str(tmp_path))(inputs), model(inputs))
    student = TextClassifier(str(tmp_path), **BINARY)
    wanted = model.encoder.state_dict()
    assert all(torch.equal(student.encoder.state_dict()[key], value) for key, value in wanted.items())


def test_a_binary_start_hands_over_its_factors(folder, tmp_path):
    first = trained(folder)
    save_pretrained(first, str(tmp_path))
    second = TextClassifier(str(tmp_path), **BINARY)
    optimizer = torch.optim.SGD(second.parameters(), lr=0.0)
    # What prepares training leaves them, too.
    ResilientGradient(second).attach(optimizer)
    state = second.state_dict()
    assert all(torch.equal(state[key], value) for key, value in first.state_dict().items())
    real = TextClassifier(str(tmp_path)).encoder.state_dict()
    assert all(torch.equal(first.encoder.state_dict()[key], value) for key, value in real.items())


def test_saved_twice_into_one_directory(folder, tmp_path):
    save_pretrained(trained(folder), str(tmp_path))
    real = TextClassifier(folder).eval()
    save_pretrained(real, str(tmp_path))
    inputs, _ = tiny_batch(folder)
    assert torch.equal(load_pretrained(str(tmp_path))(inputs), real(inputs))


def test_a_plain_directory_is_named(folder):
    with pytest.raises(ValueError, match=r"its config.json has no entry 'rebnn', so it is a plain model"):
        load_pretrained(folder)


def test_weights_that_do_not_fit_are_named(folder, tmp_path):
    save_pretrained(trained(folder), str(tmp_path))
    path = tmp_path / 'model.safetensors'
    tensors = load_file(path)
    name = 'bert.encoder.layer.0.output.dense.weight_quantizer.alpha'
    save_file({**tensors, name: torch.ones(3)}, path)
    with pytest.raises(ValueError, match=f'its weights are not those of its config.json: {name}'):
        load_pretrained(str(tmp_path))
    tensors.pop(name)
    save_file(tensors, path)
    with pytest.raises(ValueError, match=f'its weights are not those of its config.json: {name}'):
        load_pretrained(str(tmp_path))
    path.unlink()
    with pytest.raises(ValueError, match=r'there is no model.safetensors'):
        load_pretrained(str(tmp_path))


def test_config_says_what_is_binary(folder, tmp_path):
    save_pretrained(TextClassifier(folder, **BINARY), str(tmp_path))
    settings = json.loads((tmp_path / 'config.json').read_text())['rebnn']
    assert settings == json.loads(json.dumps(BINARY))
