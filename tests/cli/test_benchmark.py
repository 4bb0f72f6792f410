"""The benchmark as a user calls it, on two small files."""

import json
import os
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.cli.benchmark import main
from rebnn_mm.native_library import LIBRARY_FOLDER
from tests.deploy import models
from tests.scripts import run_script

pytestmark = pytest.mark.skipif(
    not (LIBRARY_FOLDER / 'librebnn_ort.so').is_file(), reason='the library with our kernels is not built'
)


@pytest.fixture(scope='module')
def own(tmp_path_factory) -> list[object]:
    """Options that name a packed file and a full-precision one."""
    folder = tmp_path_factory.mktemp('benchmark')
    packed = models.write(models.classifier(), folder / 'packed.onnx')
    image = helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, 'H', 'W'])
    output = helper.make_tensor_value_info('y', TensorProto.FLOAT, None)
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32), 'w')
    nodes = [helper.make_node('Conv', ['image', 'w'], ['y'], name='conv')]
    graph = helper.make_graph(nodes, 'real', [image], [output], [weight])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9), folder / 'real.onnx'
    )
    options = ['--packed', packed, '--real', folder / 'real.onnx', '--size', 48, 64, '--work-dir', folder / 'work']
    return [*options, '--rounds', 10, '--warm-up', 0.01]


def test_json_holds_ratios_and_what_belongs_to_them(own):
    done = run_script('rebnn_command.py', 'benchmark', *own, '--where', '--isa', 'portable', '--json')
    assert done.returncode == 0, done.stderr
    entry = json.loads(done.stdout)['packed']
    rows = entry['rows']
    assert list(rows) == ['fp32', 'int8', 'packed']
    for row in rows.values():
        assert row['runs'] == 10 and 0 < row['least_ms'] <= row['median_ms'] <= row['p90_ms'] and row['megabytes'] > 0
    assert entry['ratio'] == pytest.approx(rows['fp32']['median_ms'] / rows['packed']['median_ms'], rel=0.1)
    assert entry['ratio_int8'] == pytest.approx(rows['int8']['median_ms'] / rows['packed']['median_ms'], rel=0.1)
    low, high = entry['ratio_interval']
    assert 0 < low <= high
    assert entry['versions']['kernels'] == 'portable' and entry['versions']['abi'] >= 1
    assert entry['settings']['threads'] == 1 and entry['settings']['size'] == [48, 64]
    assert entry['machine']['cores'] == os.cpu_count() and entry['date']
    where = entry['where']
    assert 'Conv' in where['fp32']['operators'] and where['fp32']['ours'] == 0
    assert 0 < where['packed']['ours'] < 1 and 'BinaryConv' in where['packed']['operators']
    assert sum(where['packed']['operators'].values()) == pytest.approx(where['packed']['total_ms'], abs=0.01)
    assert [node[2] for node in where['packed']['nodes']] == sorted(n[2] for n in where['packed']['nodes'])[::-1]


@pytest.mark.slow
def test_the_table_names_machine_versions_and_every_row(own):
    done = run_script('rebnn_command.py', 'benchmark', *own, '--isa', 'portable', '--no-int8')
    assert done.returncode == 0, done.stderr
    assert 'kernels portable' in done.stdout and 'onnxruntime' in done.stdout and '10 rounds' in done.stdout
    assert (
        'full-precision, fp32' in done.stdout
        and 'packed, exact' in done.stdout
        and 'int8 ' not in done.stdout.split('│')
    )
    assert 'timing packed with portable' in done.stderr


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ([], 'give --models, or --packed with --real'),
        (['--packed', 'a.onnx'], '--packed and --real go together'),
        (['--packed', 'no.onnx', '--real', 'none.onnx'], 'no.onnx'),
    ],
)
def test_what_does_not_go_is_said_in_a_sentence(options, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['rebnn benchmark', *options, '--work-dir', str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    assert stopped.value.code != 0 and sentence in printed.err and printed.out == ''


def test_files_in_each_others_place_are_refused(own, monkeypatch, capsys):
    options = [*map(str, own)]
    packed, real = options[1], options[3]
    for given, sentence in (
        ((real, packed), f'--packed {real} has no binary layers'),
        ((packed, packed), f'--real {packed} has packed binary layers'),
        ((packed, __file__), f'--real {__file__}: it is not a packed model, or it is damaged'),
    ):
        monkeypatch.setattr(sys, 'argv', ['rebnn benchmark', '--packed', given[0], '--real', given[1], *options[4:]])
        with pytest.raises(SystemExit):
            main()
        assert sentence in capsys.readouterr().err
