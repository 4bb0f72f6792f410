"""Sessions: what ONNX Runtime may reorder, and what is said where our library is missing."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from rebnn_mm.deploy.native import LibraryError
from rebnn_mm.deploy.session import library_available, library_problem, open_session

LEVELS = onnxruntime.GraphOptimizationLevel


@pytest.fixture(scope='module')
def model() -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in 'xy']
    graph = helper.make_graph([helper.make_node('Neg', ['x'], ['y'])], 'negative', ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9).SerializeToString()


@pytest.mark.parametrize(
    ('how', 'level'),
    [
        (dict(), LEVELS.ORT_ENABLE_EXTENDED),
        (dict(blocked=True), LEVELS.ORT_ENABLE_ALL),
        (dict(exact=False), LEVELS.ORT_ENABLE_ALL),
    ],
)
def test_the_order_of_sums_is_kept_where_it_has_to_be(model, how, level):
    session = open_session(model, library=False, threads=2, **how)
    options = session.get_session_options()
    assert (options.graph_optimization_level, options.intra_op_num_threads) == (level, 2)
    assert session.run(None, {'x': np.float32([1, -2])})[0].tolist() == [-1, 2]


def test_a_trace_is_written_where_one_is_asked_for(model, tmp_path):
    session = open_session(model, library=False, in_turns=True, trace=str(tmp_path / 'trace'))
    session.run(None, {'x': np.float32([1, 2])})
    assert session.end_profiling().startswith(str(tmp_path / 'trace'))


@pytest.mark.parametrize('in_turns', [False, True])
def test_threads_of_a_session_that_waits_its_turn_do_not_spin(model, in_turns):
    options = open_session(model, library=False, in_turns=in_turns).get_session_options()
    if in_turns:
        assert options.get_session_config_entry('session.force_spinning_stop') == '1'
    else:
        with pytest.raises(RuntimeError):
            options.get_session_config_entry('session.force_spinning_stop')


def test_a_missing_library_is_said_in_a_sentence(model, tmp_path, monkeypatch):
    monkeypatch.setenv('REBNN_ORT_LIBRARY', str(tmp_path / 'gone.so'))
    assert library_problem() == f'REBNN_ORT_LIBRARY names {tmp_path / "gone.so"}, and there is no such file.'
    assert not library_available()
    with pytest.raises(LibraryError, match='gone.so, and there is no such file'):
        open_session(model, library=True)
