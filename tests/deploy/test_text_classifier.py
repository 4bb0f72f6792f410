"""Text classifiers in the packed file, against PyTorch."""

import base64
import json
import re

import numpy as np
import onnx
import pytest
import torch
from mmengine.config import Config

pytest.importorskip('transformers')

from rebnn_mm.deploy import ModelFileError, TextError, load
from rebnn_mm.export.exporter import export
from rebnn_mm.export.source import text_source
from rebnn_mm.export.tasks import random_texts
from rebnn_mm.models.language import TextClassifier
from tests.export.texts import classifier


@pytest.fixture(scope='module')
def model(tmp_path_factory) -> TextClassifier:
    return classifier(tmp_path_factory.mktemp('bert'), layers=2)


@pytest.fixture(scope='module')
def exported(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp('packed')
    step = dict(type='TokenizeText', tokenizer=model.source, max_length=20)
    cfg = Config(dict(test_dataloader=dict(dataset=dict(pipeline=[step]))))
    source = text_source(model, 'tiny.py', cfg, ['bad', 'good', 'so so'], ['a good film', 'the plot\tis dull'])
    result = export(
        model, tokenizer=source.tokenizer, config=source.config, classes=source.classes, examples=source.examples
    )
    (folder / 'tiny.onnx').write_bytes(result.data)
    return result, folder / 'tiny.onnx', source


@pytest.fixture(scope='module')
def packed(exported):
    return load(exported[1])


def test_every_binary_part_is_packed(exported, model):
    graph = onnx.load_from_string(exported[0].data)
    kinds = [node.op_type for node in graph.graph.node if node.domain == 'rebnn']
    assert kinds.count('BinaryEmbedding') == 1 and kinds.count('BinaryAttention') == 2
    assert kinds.count('BinaryLinear') == 13
    assert exported[0].verification.flips and exported[0].verification.flipped.flipped == 0
    assert {node.name for node in graph.graph.node if node.op_type == 'BinaryLinear'} <= dict(
        model.named_modules()
    ).keys()


def test_logits_are_those_of_pytorch(packed, model):
    for text in random_texts(model, (60, 31, 1)):
        tokens = dict(text.inputs)
        if tokens['input_ids'].shape[1] > 20:
            tokens = {name: values[:, :20] for name, values in tokens.items()}
        found = packed.logits(tokens)
        expected = model({name: torch.from_numpy(values) for name, values in tokens.items()}).detach().numpy()
        assert np.abs(found - expected).max() < 1e-5
        assert np.abs(expected[0] - expected[1]).max() > 1e-3


def test_padding_changes_nothing(packed):
    rng = np.random.default_rng(0)
    ids = rng.integers(4, 90, (24, 12))
    mask = np.zeros_like(ids)
    mask[:, :5] = 1
    alone = packed.logits({'input_ids': ids[:, :5]})
    padded = packed.logits({'input_ids': ids, 'attention_mask': mask})
    other = np.where(mask, ids, rng.integers(4, 90, ids.shape))
    assert np.array_equal(padded, packed.logits({'input_ids': other, 'attention_mask': mask}))
    assert np.allclose(padded, alone, atol=1e-6)
    assert np.abs(packed.logits({'input_ids': ids}) - alone).max() > 1e-3


def test_texts_become_the_tokens_of_training(packed, model):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model.source)
    texts = ['a good film !', 'The plot is very, very dull.', 'x' * 50, 'unknown ☃ words']
    expected = tokenizer(texts, truncation=True, max_length=20, padding=True, return_tensors='np')
    found = packed.tokens(texts)
    assert all(np.array_equal(found[name], expected[name]) for name in found)
    pairs = [('a good film', 'the story was not bad and not very good , one was dull , two was slow .'), ('a', 'b')]
    expected = tokenizer(
        *zip(*pairs, strict=True), truncation='longest_first', max_length=20, padding=True, return_tensors='np'
    )
    found = packed.tokens(pairs)
    assert all(np.array_equal(found[name], expected[name]) for name in found)


def test_labels_come_with_names_and_probabilities(packed):
    labels = packed('a good film', top=3)
    assert {label.name for label in labels} == {'bad', 'good', 'so so'}
    assert sum(label.score for label in labels) == pytest.approx(1, abs=1e-6)
    assert labels[0].score >= labels[1].score >= labels[2].score
    assert len(packed(('a', 'b'), top=1)) == 1


@pytest.mark.parametrize(
    ('tokens', 'words'),
    [
        ({}, 'input_ids are missing'),
        ({'input_ids': np.ones((1, 4), int), 'words': 1}, "'words' is none of them"),
        ({'input_ids': np.ones(4, int)}, r'input_ids must be \[texts, length\]'),
        ({'input_ids': np.ones((1, 4))}, 'must be whole numbers'),
        ({'input_ids': np.ones((1, 4), int), 'attention_mask': np.ones((1, 5), int)}, 'attention_mask must be'),
        ({'input_ids': np.ones((1, 21), int)}, '21 tokens are more than the 20'),
    ],
)
def test_wrong_tokens_are_refused(packed, tokens, words):
    with pytest.raises(TextError, match=words):
        packed.logits(tokens)


def test_unknown_tokens_are_refused(packed):
    with pytest.raises(ModelFileError, match='id 5000 at position 1 is not one of the table'):
        packed.logits({'input_ids': np.array([[1, 5000]])})


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        (['good', 'bad'], 'a pair as a tuple of two, not a list of 2; for several texts give tokens'),
        (('good', 'bad', 'so so'), 'not a tuple of 3;'),
        (('good', None), 'not a tuple of 2;'),
        (b'good', 'not a bytes;'),
        ('caf\udce9', 'character 4 of the text is not Unicode'),
    ],
)
def test_what_is_no_text_is_refused(packed, text, words):
    with pytest.raises(TextError, match=re.escape(words)):
        packed(text)


def test_regression_gives_its_number(tmp_path):
    model = classifier(tmp_path / 'bert', num_labels=1)
    (tmp_path / 'r.onnx').write_bytes(export(model).data)
    packed = load(tmp_path / 'r.onnx')
    tokens = {'input_ids': np.array([[2, 30, 3]])}
    assert packed.scores(tokens).shape == (1, 1)
    assert np.array_equal(packed.scores(tokens), packed.logits(tokens))
    with pytest.raises(TextError, match='holds no tokenizer'):
        packed('a film')


def test_damaged_tokenizers_are_refused(exported, tmp_path):
    from rebnn_mm.deploy.tokenizer import Tokenizer

    good = exported[2].tokenizer
    assert Tokenizer.parse(json.dumps(good)).max_length == 20
    broken = base64.b64encode(b'no zlib').decode()
    for change, words in [
        ({'max_length': 0}, 'max_length must be'),
        ({'pad_id': 'x'}, 'pad_id must be'),
        ({'sha256': '0' * 64}, 'SHA-256'),
        ({'json': broken}, 'not zlib in base64'),
        ({'json': good['json'][:400]}, 'json is'),
        ({'json': 7}, 'not zlib in base64'),
    ]:
        with pytest.raises(ModelFileError, match=words):
            Tokenizer.parse(json.dumps({**good, **change}))


@pytest.mark.parametrize('place', [0.2, 0.5, 0.8])
def test_damaged_files_are_refused(exported, tmp_path, place):
    data = bytearray(exported[0].data)
    data[int(len(data) * place)] ^= 1
    (tmp_path / 'damaged.onnx').write_bytes(data)
    with pytest.raises(ModelFileError):
        load(tmp_path / 'damaged.onnx')
