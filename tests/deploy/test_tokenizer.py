"""A tokenizer from a stranger's file is refused, or runs within its limits."""

import base64
import hashlib
import json
import zlib
from types import SimpleNamespace

import pytest

from rebnn_mm.deploy import ModelFileError, TextError
from rebnn_mm.deploy.text_classifier import INPUTS, TextClassifier
from rebnn_mm.deploy.tokenizer import Tokenizer

WORDS = {'[PAD]': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, 'good': 4}
PLAIN = {
    'version': '1.0',
    'added_tokens': [],
    'normalizer': {'type': 'Lowercase'},
    'pre_tokenizer': {'type': 'Whitespace'},
    'post_processor': None,
    'decoder': None,
    'model': {'type': 'WordLevel', 'vocab': WORDS, 'unk_token': '[UNK]'},
}
GROW = {'type': 'Replace', 'pattern': {'String': 'a'}, 'content': 'a' * 100}


def entry(parts, **changes):
    data = json.dumps({**PLAIN, **parts}).encode()
    packed = base64.b64encode(zlib.compress(data)).decode()
    values = {'max_length': 20, 'json': packed, 'sha256': hashlib.sha256(data).hexdigest(), **changes}
    return json.dumps(values)


def classifier(text):
    """A classifier of texts that has a tokenizer and no network, which tokens do not need."""
    model = object.__new__(TextClassifier)
    model.name, model.inputs = 'model.onnx', INPUTS
    model.metadata = SimpleNamespace(tokenizer=Tokenizer.parse(text))
    return model


def test_a_plain_one_makes_tokens():
    pytest.importorskip('tokenizers')
    assert classifier(entry({})).tokens(['Good bad'])['input_ids'].tolist() == [[4, 1]]


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'max_length': 10**30}, 'max_length must be a whole number from 1 to 1048576'),
        ({'pad_id': 2**40}, 'pad_id must be a whole number from 0 to 2147483647'),
    ],
)
def test_numbers_that_no_tokenizer_takes(changes, words):
    with pytest.raises(ModelFileError, match=words):
        Tokenizer.parse(entry({}, **changes))


def nested(levels):
    part = {'type': 'Lowercase'}
    for _ in range(levels):
        part = {'type': 'Sequence', 'normalizers': [part]}
    return part


@pytest.mark.parametrize(
    'parts',
    [
        {'normalizer': GROW},
        {'normalizer': {'type': 'Sequence', 'normalizers': [GROW] * 6}},
        {'normalizer': nested(2)},
        {'normalizer': nested(300)},
        {'normalizer': {'type': 'Sequence', 'normalizers': [{'type': 'Lowercase'}] * 9}},
        {'normalizer': {'type': 'Sequence'}},
        {'pre_tokenizer': {'type': 'Split', 'pattern': {'Regex': '(a*)*b'}, 'behavior': 'Removed', 'invert': False}},
        {'pre_tokenizer': 'Whitespace'},
        {'post_processor': {'type': 'Other'}},
        {'model': None},
        {'model': {'vocab': WORDS}},
    ],
)
def test_parts_that_no_text_classifier_has(parts):
    with pytest.raises(
        ModelFileError, match=r'^rebnn\.tokenizer: its \w+ (is of the kind|has too many parts)'
    ) as caught:
        Tokenizer.parse(entry(parts))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    'model',
    [
        {'type': 'WordLevel', 'vocab': {'good': 0}, 'unk_token': '[UNK]'},
        {'type': 'WordPiece', 'vocab': {'good': 0}, 'unk_token': '[UNK]', 'continuing_subword_prefix': '##',
         'max_input_chars_per_word': 100},
        {'type': 'WordPiece', 'vocab': 3},
    ],
    ids=['words', 'pieces', 'damaged'],
)  # fmt: skip
def test_a_word_that_it_has_no_number_for(model):
    pytest.importorskip('tokenizers')
    with pytest.raises(
        (ModelFileError, TextError), match=r'^model\.onnx: its tokenizer (stops|cannot be read)'
    ) as caught:
        classifier(entry({'model': model})).tokens(['bad'])
    assert '\n' not in str(caught.value)
