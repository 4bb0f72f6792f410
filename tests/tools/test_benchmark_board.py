"""The benchmark that an owner of a board runs: its report."""

import argparse
import json
import os
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from rebnn_mm.errors import RebnnError
from tests.deploy import models
from tests.deploy.board import write_board
from tests.scripts import ROOT, load_script, run_script


@pytest.fixture
def board(tmp_path):
    return write_board(tmp_path)


TOOL = ROOT / 'tools' / 'benchmark_board.py'


@pytest.fixture(scope='module')
def tool():
    return load_script(TOOL)


@pytest.fixture(scope='module')
def packed(tmp_path_factory) -> Path:
    return models.write(models.classifier(), tmp_path_factory.mktemp('board') / 'packed.onnx')


@pytest.fixture
def real(tmp_path) -> Path:
    image = helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, 'H', 'W'])
    output = helper.make_tensor_value_info('y', TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node('GlobalAveragePool', ['image'], ['y'])], 'real', [image], [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9), tmp_path / 'r.onnx')
    return tmp_path / 'r.onnx'


def arguments(packed, **changes) -> argparse.Namespace:
    given = dict(model=packed, against=None, size=(48, 64), core=None, threads=2, runs=7, warm_up=0.0, json=None)
    return argparse.Namespace(**(given | changes))


def test_the_command_prints_a_table_and_writes_json(packed, real, tmp_path):
    report = tmp_path / 'report.json'
    core = min(os.sched_getaffinity(0))
    options = ['--against', real, '--size', 48, 64, '--runs', 6, '--warm-up', 0.01, '--core', core, '--json', report]
    done = run_script(TOOL, packed, *options)
    assert done.returncode == 0, done.stderr
    written = json.loads(report.read_text())
    assert [row['model'] for row in written['models']] == [str(packed), str(real)]
    for row in written['models']:
        assert row['runs'] == 6 and 0 < row['least_ms'] <= row['median_ms'] <= row['p90_ms']
    assert written['core'] == core and written['cpu']['cpuinfo']['processor'] == str(core)
    assert {'rebnn_mm', 'onnxruntime', 'numpy', 'python', 'kernels'} <= set(written['versions'])
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ['model', 'packed.onnx', 'r.onnx', 'ratio']


def test_what_was_measured_is_printed_where_its_file_cannot_be_written(tool, packed, tmp_path, monkeypatch, capsys):
    options = [packed, '--size', 48, 64, '--runs', 6, '--warm-up', 0, '--threads', 2, '--json', tmp_path]
    monkeypatch.setattr(sys, 'argv', ['benchmark_board.py', *map(str, options)])
    with pytest.raises(SystemExit, match='1'):
        tool.main()
    printed = capsys.readouterr()
    assert 'packed.onnx' in printed.out and 'Is a directory' in printed.err


def test_an_error_is_one_line_or_a_traceback(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['benchmark_board.py', str(tmp_path / 'none.onnx'), '--threads', '2'])
    with pytest.raises(SystemExit, match='1'):
        tool.main()
    assert len(capsys.readouterr().err.splitlines()) == 1
    monkeypatch.setattr(sys, 'argv', [*sys.argv, '--traceback'])
    with pytest.raises(RebnnError, match=r'no packed model at .*none\.onnx'):
        tool.main()


def test_a_board_is_described(tool, packed, board):
    report = tool.benchmark(arguments(packed), board)
    assert report['cpu']['board'] == 'Hardkernel ODROID-C4'
    assert report['cpu']['midr'] == '0x00000000412fd050'
    assert report['cpu']['cpuinfo'] == {'processor': '0', 'CPU part': '0xd05'}
    assert report['before']['temperatures_c'] == {'soc-thermal': 61.5}
    assert report['models'][0]['runs'] == 7
    assert 'ODROID' in tool.table(report)[0] and '2.02 GHz' in tool.table(report)[0]


def test_wrong_files_are_refused_in_a_sentence(tool, packed, real, tmp_path):
    with pytest.raises(ValueError, match='ONNX Runtime does not take it'):
        tool.benchmark(arguments(packed, against=tmp_path / 'none.onnx'), tmp_path)
    rank_two = onnx.load(real)
    rank_two.graph.node[0].op_type = 'Neg'
    del rank_two.graph.input[0].type.tensor_type.shape.dim[2:]
    onnx.save(rank_two, real)
    with pytest.raises(ValueError, match='whose one input is an image of floats'):
        tool.benchmark(arguments(packed, against=real), tmp_path)
