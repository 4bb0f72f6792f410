"""The benchmark that an owner of a board runs: its report, and what it says about a processor that is slowed down."""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.deploy import models

TOOL = Path(__file__).parents[2] / 'tools' / 'benchmark_board.py'


@pytest.fixture(scope='module')
def tool():
    spec = importlib.util.spec_from_file_location('benchmark_board', TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


@pytest.fixture
def board(tmp_path) -> Path:
    """The files of a board with four Cortex-A55, as Linux shows them."""
    files = {
        'proc/cpuinfo': 'processor\t: 0\nCPU part\t: 0xd05\n\nprocessor\t: 1\nFeatures\t: fp asimd asimdhp\n',
        'proc/loadavg': '0.10 0.20 0.30 1/100 999\n',
        'proc/device-tree/model': 'Hardkernel ODROID-C4\0',
        'sys/class/thermal/thermal_zone0/type': 'soc-thermal\n',
        'sys/class/thermal/thermal_zone0/temp': '61500\n',
        'sys/class/thermal/cooling_device0/type': 'cpufreq-cpu0\n',
        'sys/class/thermal/cooling_device0/cur_state': '0\n',
    }
    for core in range(4):
        clock = f'sys/devices/system/cpu/cpu{core}'
        files |= {
            f'{clock}/cpufreq/scaling_governor': 'performance\n',
            f'{clock}/cpufreq/scaling_cur_freq': '2016000\n',
            f'{clock}/cpufreq/scaling_max_freq': '2016000\n',
            f'{clock}/cpufreq/cpuinfo_max_freq': '2016000\n',
            f'{clock}/regs/identification/midr_el1': '0x00000000412fd050\n',
        }
    for name, text in files.items():
        path = tmp_path / 'board' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / 'board'


def arguments(packed, **changes) -> argparse.Namespace:
    given = dict(model=packed, against=None, size=(48, 64), core=None, threads=2, runs=7, warm_up=0.0, json=None)
    return argparse.Namespace(**(given | changes))


def test_the_command_prints_a_table_and_writes_json(packed, real, tmp_path):
    report = tmp_path / 'report.json'
    core = min(os.sched_getaffinity(0))
    options = ['--against', real, '--size', 48, 64, '--runs', 6, '--warm-up', 0.01, '--core', core, '--json', report]
    done = subprocess.run(
        [sys.executable, TOOL, packed, *map(str, options)], capture_output=True, text=True, cwd=TOOL.parents[1]
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(report.read_text())
    assert [row['model'] for row in written['models']] == [str(packed), str(real)]
    for row in written['models']:
        assert row['runs'] == 6 and 0 < row['least_ms'] <= row['median_ms'] <= row['p90_ms']
    assert written['core'] == core and written['cpu']['cpuinfo']['processor'] == str(core)
    assert {'rebnn_mm', 'onnxruntime', 'numpy', 'python', 'kernels'} <= set(written['versions'])
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ['model', 'packed.onnx', 'r.onnx', 'ratio']


def test_a_board_is_described(tool, packed, board):
    report = tool.benchmark(arguments(packed), board)
    assert report['cpu']['board'] == 'Hardkernel ODROID-C4'
    assert report['cpu']['midr'] == '0x00000000412fd050'
    assert report['cpu']['cpuinfo'] == {'processor': '0', 'CPU part': '0xd05'}
    assert report['before']['temperatures_c'] == {'soc-thermal': 61.5}
    assert report['models'][0]['runs'] == 7
    assert 'ODROID' in tool.table(report)[0] and '2.02 GHz' in tool.table(report)[0]


@pytest.mark.parametrize(
    ('file', 'text', 'warning'),
    [
        ('cpufreq/scaling_governor', 'ondemand', 'The governor is ondemand'),
        ('cpufreq/scaling_cur_freq', '1000000', 'the clock was 1.00 of 2.02 GHz'),
    ],
)
def test_a_clock_that_may_vary_is_reported(tool, board, file, text, warning):
    (board / 'sys/devices/system/cpu/cpu2' / file).write_text(text)
    now = tool.conditions(2, board)
    assert [warning in sentence for sentence in tool.warnings_of(now, now, {'a': [1.0] * 9})] == [True]
    quiet = tool.conditions(1, board)
    assert tool.warnings_of(quiet, quiet, {'a': [1.0] * 9}) == []


def test_a_processor_that_is_slowed_down_is_reported(tool, board):
    before = tool.conditions(0, board)
    (board / 'sys/class/thermal/cooling_device0/cur_state').write_text('3')
    (board / 'proc/loadavg').write_text('2.50 1 1 1/1 1')
    after = tool.conditions(0, board)
    found = tool.warnings_of(before, after, {'a': [1.0] * 6 + [1.2] * 3})
    assert len(found) == 2 and 'cpufreq-cpu0' in found[0] and '1.20 times' in found[1]
    assert 'load 2.50' in tool.warnings_of(after, after, {'a': [1.0]})[0]


def test_the_fastest_core_is_chosen(tool, board, monkeypatch):
    (board / 'sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq').write_text('2400000')
    bound = []
    monkeypatch.setattr(os, 'sched_getaffinity', lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(os, 'sched_setaffinity', lambda _, cores: bound.append(cores))
    assert (tool.pin(None, board), tool.pin(1, board), bound) == (2, 1, [{2}, {1}])
    with pytest.raises(ValueError, match=r'--core 7 is not available here; choose one of 0, 1, 2, 3\.'):
        tool.pin(7, board)


def test_a_system_that_tells_nothing_is_described_as_far_as_it_goes(tool, tmp_path):
    assert tool.describe_cpu(0, tmp_path)['cpuinfo'] == {}
    now = tool.conditions(0, tmp_path)
    assert 'does not tell its clock' in tool.warnings_of(now, now, {'a': [1.0]})[0]


def test_wrong_files_are_refused_in_a_sentence(tool, packed, real, tmp_path):
    with pytest.raises(ValueError, match='ONNX Runtime does not take it'):
        tool.benchmark(arguments(packed, against=tmp_path / 'none.onnx'), tmp_path)
    rank_two = onnx.load(real)
    rank_two.graph.node[0].op_type = 'Neg'
    del rank_two.graph.input[0].type.tensor_type.shape.dim[2:]
    onnx.save(rank_two, real)
    with pytest.raises(ValueError, match='whose one input is an image of floats'):
        tool.benchmark(arguments(packed, against=real), tmp_path)
