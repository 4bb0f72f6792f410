import os

import numpy as np
import pytest

from rebnn_mm import native_library
from rebnn_mm.deploy import Detections, check


def test_prints_processor_kernels_result_and_time(capsys):
    check.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ['processor', 'kernels', 'versions', 'model', 'time']
    assert lines[3] == 'model      zoo:blood-cells-tiny finds 20 objects in zoo:BloodImage_00021.jpg'
    assert lines[4].endswith('1 thread, with our kernels') and lines[-1] == 'no problems found'


def test_a_system_that_binds_no_process_to_processors(monkeypatch, capsys):
    monkeypatch.delattr(os, 'sched_getaffinity')
    monkeypatch.setattr(check, 'RUNS', 1)
    check.main([])
    assert f'{os.cpu_count()} of {os.cpu_count()} cores' in capsys.readouterr().out.splitlines()[0]


def test_missing_kernels_are_named_and_the_model_runs_without(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(native_library, 'LIBRARY_FOLDER', tmp_path)
    monkeypatch.setattr(check, 'RUNS', 1)
    with pytest.raises(SystemExit) as stopped:
        check.main([])
    lines = capsys.readouterr().out.splitlines()
    assert stopped.value.code == 1 and lines[1] == 'kernels    none'
    assert 'finds 20 objects' in lines[3] and lines[4].endswith('without our kernels')
    assert lines[-1].startswith('error: ') and 'with the compiled kernels is missing. To build it: ' in lines[-1]


@pytest.mark.parametrize(('shift', 'label', 'same'), [(0.1, 0, True), (3.0, 0, False), (0.0, 1, False)])
def test_results_agree_up_to_the_order_of_sums(shift, label, same):
    box = np.array([[1, 2, 30, 40]], np.float32)
    one = Detections(box, np.ones(1, np.float32), np.zeros(1, int), ('cat', 'dog'))
    other = Detections(box + shift, np.ones(1, np.float32), np.full(1, label), ('cat', 'dog'))
    assert check.agree(one, other) is same
