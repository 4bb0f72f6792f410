"""The average pooling of 2x2 squares: kernel and function against NumPy, and against ONNX Runtime's own pooling."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from rebnn_mm.export.operators import attach_functions
from tests.runtime.operator_cases import same_bits, with_odd_values
from tests.runtime.sessions import open_session
from tests.scripts import run_script

RUNS = ['kernel', 'function']
SIZES = [(1, 1), (1, 2), (2, 1), (3, 3), (2, 2), (8, 6), (7, 5), (33, 40)]


def session(run: str, threads: int = 1, domain: str = 'rebnn', **attributes) -> onnxruntime.InferenceSession:
    """A model of one pooling; ``run`` says who computes it."""
    op_type = 'RealAveragePool' if domain else 'AveragePool'
    graph = helper.make_graph(
        [helper.make_node(op_type, ['X'], ['Y'], 'pool', domain=domain, **attributes)],
        'one',
        [helper.make_tensor_value_info('X', TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info('Y', TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    return open_session(attach_functions(model), run, threads)


def expected(x: np.ndarray, ceil_mode: int) -> np.ndarray:
    """What docs/operators.md says."""
    h, w = x.shape[1:3]
    if ceil_mode:
        x = np.pad(x, ((0, 0), (0, h % 2), (0, w % 2), (0, 0)))
    inside = np.pad(np.ones((h, w, 1), np.float32), ((0, h % 2), (0, w % 2), (0, 0)))
    x, inside = (values[..., : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2, :] for values in (x, inside))

    def total(values):
        rows = values[..., ::2, :, :] + values[..., 1::2, :, :]
        return rows[..., ::2, :] + rows[..., 1::2, :]

    with np.errstate(all='ignore'):
        return total(x) / total(inside)


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('ceil_mode', [None, 0, 1])
@pytest.mark.parametrize('size', SIZES)
def test_it_equals_numpy(run, ceil_mode, size):
    pool = session(run, **({} if ceil_mode is None else {'ceil_mode': ceil_mode}))
    for channels in (1, 5, 16, 67):
        x = with_odd_values(np.random.default_rng(channels), (2, *size, channels))
        (y,) = pool.run(None, {'X': x})
        assert same_bits(y, expected(x, ceil_mode or 0))


@pytest.mark.parametrize('ceil_mode', [0, 1])
@pytest.mark.parametrize('size', [(8, 6), (7, 5)])
def test_it_equals_the_standard_operator(ceil_mode, size):
    x = np.random.default_rng(0).normal(size=(2, *size, 12)).astype(np.float32)
    (y,) = session('kernel', ceil_mode=ceil_mode).run(None, {'X': x})
    options = dict(kernel_shape=[2, 2], strides=[2, 2], ceil_mode=ceil_mode, count_include_pad=0)
    (standard,) = session('function', domain='', **options).run(None, {'X': x.transpose(0, 3, 1, 2)})
    np.testing.assert_allclose(y, standard.transpose(0, 2, 3, 1), rtol=0, atol=5e-7)


@pytest.mark.parametrize('shape', [(0, 4, 4, 3), (1, 0, 4, 3), (1, 4, 0, 3), (1, 4, 4, 0)])
def test_it_may_be_empty(shape):
    (y,) = session('kernel', ceil_mode=1).run(None, {'X': np.zeros(shape, np.float32)})
    assert y.shape == (shape[0], (shape[1] + 1) // 2, (shape[2] + 1) // 2, shape[3])


def test_threads_change_nothing():
    x = np.random.default_rng(0).normal(size=(3, 99, 98, 64)).astype(np.float32)
    one, two = (session('kernel', threads, ceil_mode=1).run(None, {'X': x})[0] for threads in (1, 2))
    assert np.array_equal(one, two)


def test_wrong_input_gives_a_sentence():
    with pytest.raises(Exception, match=r"Pool 'pool': X has the shape \[2, 3\]; it must have 4 dimensions"):
        session('kernel').run(None, {'X': np.zeros((2, 3), np.float32)})
    with pytest.raises(Exception, match='the attribute ceil_mode is 2; it must be 0 or 1'):
        session('kernel', ceil_mode=2)
    with pytest.raises(Exception, match='the attribute ceil_mode must be an integer'):
        session('kernel', ceil_mode=1.5)


@pytest.mark.parametrize('isa', ['avx2', 'portable'])
def test_other_instruction_sets_give_the_same(isa, tmp_path, monkeypatch):
    script = tmp_path / 'check.py'
    script.write_text('import sys, tests.runtime.test_average_pool as t; sys.exit(t.check_all())')
    monkeypatch.setenv('REBNN_ISA', isa)
    done = run_script(script)
    if 'which this processor lacks' in done.stderr or 'is not one of' in done.stderr:
        pytest.skip(f'no {isa} here')
    assert done.returncode == 0, done.stdout + done.stderr


def check_all() -> int:
    """0 if every size gives what NumPy does; for another process."""
    for size in SIZES:
        for ceil_mode in (0, 1):
            x = with_odd_values(np.random.default_rng(0), (2, *size, 67))
            if not same_bits(session('kernel', ceil_mode=ceil_mode).run(None, {'X': x})[0], expected(x, ceil_mode)):
                return 1
    return 0
