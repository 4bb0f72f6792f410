"""Which files no other beats, their table and picture, and the int8 form of a full-precision file."""

import numpy as np
import pytest
import torch

from rebnn_mm.benchmark.choice import Point, draw, front, int8_of, markdown
from rebnn_mm.deploy import load
from rebnn_mm.export.examples import noise
from rebnn_mm.export.exporter import export, write
from tests.export.conftest import PREPROCESS, tiny_classifier, tiny_parts

POINTS = [
    Point('1 bit', 52.8, 40.0, 2.4),
    Point('fp32', 52.5, 400.0, 47.0),
    Point('int8', 52.9, 120.0, 12.0),
    Point('worse and as large', 52.0, 41.0, 2.4),
]


@pytest.mark.parametrize('order', [1, -1])
def test_front_holds_what_no_other_beats(order):
    for cost in ('ms', 'megabytes'):
        assert [point.label for point in front(POINTS[::order], cost)] == ['1 bit', 'int8']


def test_equal_files_are_both_on_the_front_and_no_number_is_on_none():
    twice = [Point('a', 50.0, 10.0, 2.0), Point('b', 50.0, 12.0, 2.0), Point('none', float('nan'), 1.0, 1.0)]
    for points in (twice, twice[::-1]):
        assert {point.label for point in front(points, 'megabytes')} == {'a', 'b'}
        assert [point.label for point in front(points, 'ms')] == ['a']


def test_table_marks_both_fronts():
    rows = markdown([*POINTS, Point('small', 50.0, 50.0, 1.0)], 'AP')
    assert rows[2] == '| 1 bit | 52.8 | **40** | **2.4** |'
    assert rows[3] == '| fp32 | 52.5 | 400 | 47 |'
    assert rows[-1] == '| small | 50.0 | 50 | **1** |'
    assert markdown([Point('slow', 1.0, 1234.5, 2.0)], 'AP')[2] == '| slow | 1.0 | **1234** | **2** |'


@pytest.mark.parametrize('others', [[], [Point('none', float('nan'), 1.0, 1.0)]], ids=['scores', 'one is no number'])
def test_picture_is_written(tmp_path, others):
    draw([*others, *POINTS], 'AP', tmp_path / 'front.svg')
    text = (tmp_path / 'front.svg').read_text()
    assert text.count('megabytes of the file') and all(point.label in text for point in POINTS)


def test_int8_of_a_real_valued_file_is_smaller_loads_and_answers_alike(tmp_path):
    pytest.importorskip('mmpretrain')
    backbone = tiny_parts()['backbone'] | dict(conv_cfg=None, base_channels=32)
    torch.manual_seed(0)
    model = tiny_classifier(backbone=backbone, head=dict(type='LinearClsHead', num_classes=5, in_channels=32))
    about = dict(preprocess=PREPROCESS, classes=list('abcde'), size=(16, 12))
    write(export(model, **about).data, tmp_path / 'real.onnx')
    images = noise(PREPROCESS, (16, 12))
    (tmp_path / 'int8.onnx').write_bytes(int8_of(tmp_path / 'real.onnx', images))
    assert (tmp_path / 'int8.onnx').stat().st_size < 0.6 * (tmp_path / 'real.onnx').stat().st_size
    real, small = (load(tmp_path / f'{name}.onnx', size=(12, 16)) for name in ('real', 'int8'))
    assert small.classes == real.classes == tuple('abcde')
    pixels = np.random.default_rng(0).integers(0, 256, (16, 12, 3), np.uint8)
    wanted, found = real.scores(pixels), small.scores(pixels)
    assert 0 < np.abs(found - wanted).max() < 0.1
