"""A file for larq compute engine is compared before it is written."""

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope
from rich.console import Console

from rebnn_mm.export.engines import ENGINES, find_writer
from rebnn_mm.export.engines.lce import binary
from rebnn_mm.export.engines.lce.engine import has_engine
from rebnn_mm.export.examples import Image
from rebnn_mm.export.options import Options
from rebnn_mm.export.source import Source


@pytest.fixture(scope='module')
def source():
    from mmpretrain.registry import MODELS

    backbone = dict(
        type='BinaryResNet', depth=18, stem='cifar', base_channels=32, num_stages=2, strides=(1, 2), dilations=(1, 1),
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


def test_a_file_is_compared_before_it_is_written(source, console, tmp_path):
    find_writer('lce')(source, tmp_path / 'model.tflite', Options(), console)
    text = console.export_text()
    assert (tmp_path / 'model.tflite').read_bytes()[4:8] == b'TFL3'
    assert 'takes one 12x10 image' in text
    assert ('best class the same on 2.' if has_engine() else 'The file was not run') in text


def test_a_network_for_grey_images(source, console, tmp_path):
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU()).eval()
    find_writer('lce')(source._replace(model=net), tmp_path / 'model.tflite', Options(), console)
    assert (tmp_path / 'model.tflite').is_file()


def test_another_answer_is_no_file(source, console, tmp_path, monkeypatch, run_lce):
    border_sums = binary.border_sums
    monkeypatch.setattr(binary, 'border_sums', lambda *args: -border_sums(*args))
    with pytest.raises(ValueError, match='larq compute engine gives another answer than the packed file'):
        find_writer('lce')(source, tmp_path / 'model.tflite', Options(), console)
    assert not list(tmp_path.iterdir())


def test_what_does_not_go_into_such_a_file(source, console, tmp_path):
    write = find_writer('lce')
    for option, asked in {
        'half': Options(half=True),
        'fast': Options(fast=True),
        'half_stem': Options(half_stem=True),
        'fuse': Options(fuse=False),
    }.items():
        with pytest.raises(ValueError, match=f'^{option} is an option of --format onnx; --format lce has the'):
            write(source, tmp_path / 'model', asked, console)
    image = Image(np.zeros((1, 3, 8, 8), np.float32), (8, 8))
    with pytest.raises(ValueError, match='an image is 8x8 after preparation, and the file takes 12x10 only'):
        write(source._replace(examples=[image]), tmp_path / 'model', Options(), console)
    assert not list(tmp_path.iterdir())


def test_every_engine_has_a_writer():
    assert all(callable(find_writer(engine)) for engine in ENGINES)


def test_texts_go_into_the_packed_file_only(source, console, tmp_path):
    with pytest.raises(ValueError, match='--format lce holds image classifiers, and this model takes texts; use onnx'):
        find_writer('lce')(source._replace(tokenizer={}), tmp_path / 'model', Options(), console)
