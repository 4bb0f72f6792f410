import copy

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification

from rebnn_mm.layers import BinaryEmbedding, BinaryLayer
from rebnn_mm.layers.report import layer_rows
from rebnn_mm.methods import ReBNNLinear
from rebnn_mm.models.language import binarize
from tests.models.language.tiny import SIZES_OF, tiny_batch, tiny_encoder

LINEAR = dict(type='ReBNNLinear', center='row', activation=dict(type='BinarySign', shift=None))
WORDS = dict(type='BinaryEmbedding')

# Linear layers of two encoder layers and what comes after them, and embeddings that keep full precision.
COUNTS = dict(bert=(14, 2), distilbert=(14, 1), roberta=(14, 2), electra=(15, 2), modernbert=(10, 0))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp('bert'))


def load(folder):
    return AutoModelForSequenceClassification.from_pretrained(folder)


@pytest.mark.parametrize('kind', list(SIZES_OF))
def test_every_linear_but_the_last_and_the_words_are_binary(kind, tmp_path):
    model = load(tiny_encoder(tmp_path, kind))
    before = model.state_dict()
    binarize(model, LINEAR, WORDS)
    rows = layer_rows(model)
    linears = [row for row in rows if row.kind == 'ReBNNLinear']
    assert len(linears) == COUNTS[kind][0]
    assert [row.why for row in linears[:-1]] == [''] * (len(linears) - 1) and linears[-1].why == 'output layer'
    assert [(row.weight_bits, row.activation_bits) for row in rows if row.kind == 'BinaryEmbedding'] == [(1, 32)]
    assert len([row for row in rows if row.kind == 'Embedding']) == COUNTS[kind][1]
    after = model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert all('weight_quantizer' in key for key in after.keys() - before.keys())


def test_two_values_come_out_of_every_part(folder):
    model = binarize(load(folder), LINEAR, WORDS).train()
    inputs, _ = tiny_batch(folder)
    seen = {}

    def look(name):
        def hook(module, args, output):
            embedding = isinstance(module, BinaryEmbedding)
            # The padding row starts at zero, so its factor is zero.
            weight = module.weight_quantizer(module.weight).detach()[int(embedding) :]
            given = None if embedding else module.activation_quantizer(args[0])
            seen[name] = all(len(row.unique()) == 2 and row.max() == -row.min() for row in weight)
            seen[name] &= given is None or set(given.unique().tolist()) <= {-1.0, 1.0}

        return hook

    for name, module in model.named_modules():
        if isinstance(module, BinaryLayer) and module.binary:
            module.register_forward_hook(look(name))
    model(**inputs)
    assert len(seen) == 14 and all(seen.values())


def test_factors_start_from_the_weights_as_loaded(folder):
    model = binarize(load(folder), LINEAR, dict(type='BinaryEmbedding', weight='ReBNNWeight'))
    for module in model.modules():
        if isinstance(module, BinaryLayer) and module.binary:
            expected = module.weight.detach().abs().mean(1)
            torch.testing.assert_close(module.weight_quantizer.alpha.detach(), expected)


def test_every_parameter_learns(folder):
    model = binarize(load(folder), LINEAR, WORDS).train()
    inputs, _ = tiny_batch(folder)
    model(**inputs, labels=torch.tensor([0, 1])).loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_layers_know_their_names(folder):
    model = binarize(load(folder), LINEAR, WORDS)
    for name, module in model.named_modules():
        if isinstance(module, BinaryLayer):
            assert module.layer_name == name


def test_what_is_named_stays_real(folder):
    model = binarize(load(folder), LINEAR, WORDS, keep_real=['pooler', 'layer.0.*.*.query', 'word_embeddings'])
    why = {row.name: row.why for row in layer_rows(model) if 'keep_real' in row.why}
    assert why == {
        'bert.embeddings.word_embeddings': 'named in keep_real (word_embeddings)',
        'bert.encoder.layer.0.attention.self.query': 'named in keep_real (layer.0.*.*.query)',
        'bert.pooler.dense': 'named in keep_real (pooler)',
    }


def test_all_named_is_the_real_model(folder):
    inputs, _ = tiny_batch(folder)
    plain = load(folder).eval()
    model = binarize(copy.deepcopy(plain), LINEAR, WORDS, keep_real=['bert']).eval()
    assert torch.equal(model(**inputs).logits, plain(**inputs).logits)
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_overrides_reach_the_layers_they_name(folder):
    overrides = {
        'intermediate.dense': dict(gamma=1e-4),
        'layer.1.intermediate.dense': dict(gamma=3e-4, activation=dict(type='BinaryRSign', shift='zero')),
    }
    for order in (overrides, dict(reversed(overrides.items()))):
        model = binarize(load(folder), LINEAR, overrides=order)
        layers = model.bert.encoder.layer
        assert layers[0].intermediate.dense.weight_quantizer.gamma_mode == 1e-4
        assert layers[1].intermediate.dense.weight_quantizer.gamma_mode == 3e-4
        assert type(layers[1].intermediate.dense.activation_quantizer).__name__ == 'BinaryRSign'
        assert layers[1].output.dense.weight_quantizer.gamma_mode == 'adaptive'
    assert isinstance(model.bert.embeddings.word_embeddings, nn.Embedding)
    assert not isinstance(model.bert.embeddings.word_embeddings, BinaryEmbedding)


def test_precision_gradient_and_mode_are_kept(folder):
    model = load(folder).double().train()
    model.bert.pooler.dense.requires_grad_(False)
    model.bert.encoder.eval()
    binarize(model, LINEAR, WORDS)
    assert model.bert.pooler.dense.weight.dtype == torch.float64
    assert not model.bert.pooler.dense.weight.requires_grad and model.bert.pooler.dense.alpha.requires_grad
    assert model.bert.pooler.dense.training
    assert not model.bert.encoder.layer[0].output.dense.training


def test_a_copy_computes_the_same(folder):
    model = binarize(load(folder), LINEAR, WORDS).eval()
    inputs, _ = tiny_batch(folder)
    assert torch.equal(copy.deepcopy(model)(**inputs).logits, model(**inputs).logits)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(linear=dict(type='ReBNLinear')), "linear='ReBNLinear' is not such a layer. Did you mean 'ReBNNLinear'?"),
        (dict(linear=dict(type='ReBNNConv2d')), "linear='ReBNNConv2d' is not such a layer.*Registered: .*ReBNNLinear"),
        (dict(linear={}), 'linear=None is not such a layer'),
        (dict(linear=dict(type='ReBNNLinear', gama=1)), "no option 'gama'. Did you mean 'gamma'?"),
        (dict(word_embedding=dict(type='ReBNNLinear')), "word_embedding='ReBNNLinear' is not such a layer"),
        (dict(linear=LINEAR, keep_real='pooler'), r"keep_real='pooler' must be a list of names, \['pooler'\]"),
        (dict(linear=LINEAR, keep_real=['poler']), "keep_real names 'poler', which fits no layer.*mean 'pooler'"),
        (dict(overrides={'query': {}}), 'overrides are further options of linear, which is None'),
        (dict(linear=LINEAR, overrides={'querry': {}}), "overrides names 'querry', .*Did you mean 'query'"),
    ],
)
def test_wrong_option_is_named(folder, options, message):
    model = load(folder)
    with pytest.raises(ValueError, match=message):
        binarize(model, **options)
    assert not any(isinstance(module, BinaryLayer) for module in model.modules())


def test_a_binary_model_and_one_without_layers_are_refused(folder):
    with pytest.raises(ValueError, match='has binary layers already'):
        binarize(binarize(load(folder), LINEAR), LINEAR)
    with pytest.raises(ValueError, match='Tanh has no linear layer'):
        binarize(nn.Tanh(), LINEAR)


def test_a_shared_weight_is_refused(folder):
    model = load(folder)
    model.extra = nn.Linear(32, 103, bias=False)
    model.extra.weight = model.bert.embeddings.word_embeddings.weight
    with pytest.raises(ValueError, match="'bert.embeddings.word_embeddings' shares its weight with 'extra'"):
        binarize(model, word_embedding=WORDS)


def test_the_class_may_be_given_itself(folder):
    model = binarize(load(folder), dict(type=ReBNNLinear))
    assert isinstance(model.bert.pooler.dense, ReBNNLinear)
