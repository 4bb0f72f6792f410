"""Metadata is read as docs/format.md states it, and whatever else it says is refused in one sentence."""

import json

import pytest

from rebnn_mm.deploy.errors import ModelFileError
from rebnn_mm.deploy.metadata import Metadata

from . import models


def entries(**changes):
    """Those of a classifier; ``None`` takes an entry out."""
    known = {entry.key: entry.value for entry in models.classifier().metadata_props}
    known.update({f'rebnn.{key}': value for key, value in changes.items()})
    return {key: value for key, value in known.items() if value is not None}


def test_a_classifier():
    metadata = Metadata.parse({**entries(), 'another.key': 'is ignored', 'rebnn.later': 'too'})
    assert (metadata.task, metadata.classes) == ('classification', models.CLASSES)
    assert (metadata.producer, metadata.config, metadata.outputs) == ('tests', 'small.py', ())
    assert metadata.packed_sha256 == models.packed_digests(models.classifier().graph)
    assert metadata.preprocess.channels == 'rgb'


def test_a_file_says_whether_real_layers_may_round_otherwise():
    assert not Metadata.parse(entries()).blocked
    assert Metadata.parse(entries(real_layout='blocked')).blocked


def test_names_are_cleaned():
    names = ['cat', '\x1b[2Jcat', 'two\nlines', 'half \ud800', 'back\u202ewards', 'Blüte', '猫']
    metadata = Metadata.parse(entries(classes=json.dumps(names), config='a\r.py', producer='me\x07'))
    assert metadata.classes == (
        'cat',
        '\ufffd[2Jcat',
        'two\ufffdlines',
        'half \ufffd',
        'back\ufffdwards',
        'Blüte',
        '猫',
    )
    assert (metadata.config, metadata.producer) == ('a\ufffd.py', 'me\ufffd')


@pytest.mark.parametrize('name', ['../../../x', 'a/b', 'a\\b', 'a\nb', '', 'half \ud800'])
def test_names_of_outputs_that_could_be_places(name):
    with pytest.raises(ModelFileError, match='must name outputs by letters, digits'):
        Metadata.parse(entries(task='raw', outputs=json.dumps([name])))


@pytest.mark.parametrize('key', ['task', 'classes', 'preprocess', 'sign', 'packed_sha256'])
def test_a_missing_key_is_named(key):
    with pytest.raises(ModelFileError, match=f'its metadata has no rebnn.{key}'):
        Metadata.parse(entries(**{key: None}))


def test_a_raw_model_needs_outputs_and_no_classes():
    metadata = Metadata.parse(entries(task='raw', classes=None, outputs='["maps"]'))
    assert metadata.outputs == ('maps',) and metadata.classes == ()
    with pytest.raises(ModelFileError, match='its metadata has no rebnn.outputs'):
        Metadata.parse(entries(task='raw'))


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'format': None}, 'it is not a packed model: its metadata has no rebnn.format'),
        (
            {'format': '2'},
            "it has format version '2' and this rebnn_mm reads version 1: install the rebnn_mm that wrote",
        ),
        ({'format': '1.0'}, "it has format version '1.0'"),
        ({'format': '9' * 500}, "it has format version '99999999999999999999' and"),
        (
            {'task': 'segmentation'},
            "its rebnn.task is 'segmentation', not one of classification, detection, text-classification, raw",
        ),
        ({'sign': 'positive is bit 1'}, "its rebnn.sign is 'positive is bit 1', not 'negative is bit 1'"),
        ({'real_layout': 'rows'}, "its rebnn.real_layout is 'rows', not 'blocked'"),
        ({'task': 'raw', 'outputs': '[]'}, 'rebnn.outputs must name at least one output'),
        ({'classes': '{"a": 1}'}, 'rebnn.classes must be a JSON list'),
        ({'classes': '[1, 2]'}, 'rebnn.classes must be a JSON list of texts'),
        ({'packed_sha256': '[]'}, 'rebnn.packed_sha256 must be a JSON object'),
        ({'packed_sha256': '{"w": "12"}'}, 'must give 64 hexadecimal digits'),
        ({'packed_sha256': '{"w": 12}'}, 'must give 64 hexadecimal digits'),
        ({'preprocess': '[]'}, 'rebnn.preprocess must be a JSON object'),
    ],
)
def test_what_is_refused(changes, words):
    with pytest.raises(ModelFileError, match=words) as caught:
        Metadata.parse(entries(**changes))
    assert '\n' not in str(caught.value) and len(str(caught.value)) < 250
