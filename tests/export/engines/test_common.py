"""Files for other engines are compared before they are written."""

import numpy as np
import onnx
import pytest
import torch
from mmengine.registry import DefaultScope
from rich.console import Console

from rebnn_mm.export.engines import ENGINES, bolt, common
from rebnn_mm.export.engines.lce.engine import has_engine
from rebnn_mm.export.examples import Image
from rebnn_mm.export.options import Options
from rebnn_mm.export.source import Source


@pytest.fixture(scope='module')
def source():
    from mmpretrain.registry import MODELS

    backbone = dict(
        type='ReBNNResNet', depth=18, stem='cifar', base_channels=32, num_stages=2, strides=(1, 2), dilations=(1, 1),
        out_indices=(1,),
    )  # fmt: skip
    head = dict(type='LinearClsHead', num_classes=5, in_channels=64)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(
            dict(type='ImageClassifier', backbone=backbone, neck=dict(type='GlobalAveragePooling'), head=head)
        )
    preprocess = {'channels': 'rgb', 'mean': [127] * 3, 'std': [60] * 3}
    return Source(model.eval(), 'small.py', preprocess=preprocess, size=(12, 10))


@pytest.fixture
def console():
    return Console(width=200, record=True)


def test_lce(source, console, tmp_path):
    ENGINES['lce'].writer()(source, tmp_path / 'model.tflite', Options(), console)
    text = console.export_text()
    assert (tmp_path / 'model.tflite').read_bytes()[4:8] == b'TFL3'
    assert 'takes one 12x10 image' in text
    assert ('best class the same on 2.' if has_engine() else 'The file was not run') in text


def test_bolt(source, console, tmp_path, monkeypatch):
    opened = []
    real = common.open_session
    monkeypatch.setattr(common, 'open_session', lambda *args, **kwargs: opened.append(args) or real(*args, **kwargs))
    ENGINES['bolt'].writer()(source, tmp_path / 'model.onnx', Options(), console)
    text = console.export_text()
    model = onnx.load(tmp_path / 'model.onnx')
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 12, 10]
    assert 'exclude it' not in text
    assert 'best class the same on 2.' in text
    # The packed file and the emulated one, each for both images.
    assert len(opened) == 2


def test_another_answer_is_no_file(source, console, tmp_path, monkeypatch):
    border_sums = bolt.border_sums
    monkeypatch.setattr(bolt, 'border_sums', lambda *args: -border_sums(*args))
    with pytest.raises(ValueError, match='BOLT.* gives another answer than the packed file'):
        ENGINES['bolt'].writer()(source, tmp_path / 'model.onnx', Options(), console)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('name', ['lce', 'bolt'])
def test_what_does_not_go_into_such_a_file(name, source, console, tmp_path):
    write = ENGINES[name].writer()
    for option, asked in {
        'half': Options(half=True),
        'fast': Options(fast=True),
        'half_stem': Options(half_stem=True),
        'fused': Options(fused=False),
    }.items():
        with pytest.raises(ValueError, match=f'^{option} is an option of --format onnx; --format (lce|bolt) has the'):
            write(source, tmp_path / 'model', asked, console)
    image = Image(np.zeros((1, 3, 8, 8), np.float32), (8, 8))
    with pytest.raises(ValueError, match='an image is 8x8 after preparation, and the file takes 12x10 only'):
        write(source._replace(examples=[image]), tmp_path / 'model', Options(), console)
    assert not list(tmp_path.iterdir())


def test_every_engine_says_what_it_is_in_a_line():
    assert list(ENGINES) == ['onnx', 'lce', 'bolt']
    assert all(engine.about and '\n' not in engine.about and callable(engine.writer()) for engine in ENGINES.values())


def test_texts_go_into_the_packed_file_only(source, console, tmp_path):
    with pytest.raises(ValueError, match='--format lce holds image classifiers, and this model takes texts; use onnx'):
        ENGINES['lce'].writer()(source._replace(tokenizer={}), tmp_path / 'model', Options(), console)
