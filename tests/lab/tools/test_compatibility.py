"""The command goes on where it ended, and renews the table of a page."""

import importlib
import json
import os

import pytest

from tests.scripts import run_script

NAME = 'mmpretrain::resnet/resnet18_8xb32_in1k'
ROW = dict(
    size=224, layers=21, binary=16, share=94.1, train_seconds=3, task='classification', because='', date='2026-11-23'
)
ROW |= dict(fp32_mb=46.8, packed_mb=4.2, fp32_ms=30.0, packed_ms=10.0, ratio=[3.0, 2.9, 3.1], runs=25)


def test_a_row_that_is_there_is_not_tried_again(tmp_path):
    pytest.importorskip('mmdet')
    rows, page = tmp_path / 'rows.json', tmp_path / 'page.md'
    rows.write_text(json.dumps({NAME: ROW}))
    page.write_text('Models:\n<!-- begin compatibility -->\nold\n<!-- end compatibility -->\n')
    done = run_script('lab/tools/compatibility.py', '--only', 'resnet18_', '--json', rows, '--update', page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert (
        '**3.00x** (2.90 to 3.10) |' in text
        and 'old' not in text
        and 'Measured 2026-11-23 by `python -m lab.tools.compatibility`' in text
    )
    assert 'Not tried yet: retinanet_r18' in text
    assert json.loads(rows.read_text()) == {NAME: ROW}


@pytest.fixture
def tool():
    pytest.importorskip('mmdet')
    pytest.importorskip('mmpretrain')
    return importlib.import_module('lab.tools.compatibility')


@pytest.mark.parametrize(
    ('does', 'limit', 'sentence'),
    [
        ('while True: pass', 1, 'stopped after 1 seconds of processor time'),
        ('os._exit(3)', 60, 'its process ended with code 3'),
    ],
)
def test_a_model_that_hangs_or_crashes_is_a_row(tool, monkeypatch, does, limit, sentence):
    monkeypatch.setattr(tool, 'check_model', lambda *_: exec(does, {'os': os}))
    assert tool.try_model(NAME, limit) == {'size': 224, 'stopped': sentence}


def test_a_file_of_others_is_left_alone(tmp_path):
    rows = tmp_path / 'rows.json'
    rows.write_text('{"x": {"a": 1}}')
    done = run_script('lab/tools/compatibility.py', '--only', 'resnet18_', '--json', rows)
    assert done.returncode == 1 and 'rows.json holds other than rows of this program' in done.stderr
    assert rows.read_text() == '{"x": {"a": 1}}'


def test_another_name_is_one_sentence(tmp_path):
    done = run_script('lab/tools/compatibility.py', '--only', 'resnet19', '--json', tmp_path / 'rows.json')
    assert (
        done.returncode == 1 and '--only resnet19 fits none of resnet18_8xb32_in1k, ' in done.stderr.splitlines()[-1]
    )
