"""Upsampling by 2 with an addition: kernel and function against NumPy, in one process for every instruction set."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from rebnn_mm.export.operators import attach_functions
from rebnn_mm.native_library import instruction_sets
from tests.runtime.operator_cases import same_bits, with_odd_values
from tests.runtime.sessions import open_session
from tests.scripts import run_script

RUNS = ['kernel', 'function']
SIZES = [(1, 1, 1), (2, 3, 5), (1, 7, 16), (3, 2, 67), (33, 40, 8)]


def session(run: str, threads: int = 1) -> onnxruntime.InferenceSession:
    """A model of one such operator; ``run`` says who computes it."""
    graph = helper.make_graph(
        [helper.make_node('RealUpsampleAdd', ['X', 'R'], ['Y'], 'up', domain='rebnn')],
        'one',
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in 'XR'],
        [helper.make_tensor_value_info('Y', TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    return open_session(attach_functions(model), run, threads)


def inputs(h: int, w: int, channels: int, n: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(channels)
    return {'X': with_odd_values(rng, (n, h, w, channels)), 'R': with_odd_values(rng, (n, 2 * h, 2 * w, channels))}


def expected(feeds: dict[str, np.ndarray]) -> np.ndarray:
    with np.errstate(all='ignore'):
        return feeds['X'].repeat(2, 1).repeat(2, 2) + feeds['R']


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('size', SIZES)
def test_it_equals_numpy(run, size):
    feeds = inputs(*size)
    assert same_bits(session(run).run(None, feeds)[0], expected(feeds))


@pytest.mark.parametrize('shape', [(0, 4, 4, 3), (1, 0, 4, 3), (1, 4, 0, 3), (1, 4, 4, 0)])
def test_it_may_be_empty(shape):
    n, h, w, channels = shape
    assert session('kernel').run(None, inputs(h, w, channels, n))[0].shape == (n, 2 * h, 2 * w, channels)


def test_threads_change_nothing():
    feeds = inputs(99, 97, 64)
    one, two = (session('kernel', threads).run(None, feeds)[0] for threads in (1, 2))
    assert same_bits(one, two) and same_bits(one, expected(feeds))


@pytest.mark.parametrize('shape', [(2, 5, 6, 5), (2, 4, 6, 4), (2, 4, 6), (1, 4, 6, 5)])
def test_an_addition_of_another_shape_gives_a_sentence(shape):
    feeds = inputs(2, 3, 5) | {'R': np.zeros(shape, np.float32)}
    with pytest.raises(Exception, match=r"Add 'up': R has the shape .*; it must be that of X .* \[2, 4, 6, 5\]"):
        session('kernel').run(None, feeds)


def test_an_input_without_channels_gives_a_sentence():
    with pytest.raises(Exception, match=r'X has the shape \[2, 3\]; it must have 4 dimensions'):
        session('kernel').run(None, {name: np.zeros((2, 3), np.float32) for name in 'XR'})


@pytest.mark.parametrize('isa', instruction_sets()[1:])
def test_other_instruction_sets_give_the_same(isa, tmp_path, monkeypatch):
    script = tmp_path / 'check.py'
    script.write_text('import sys, tests.runtime.test_upsample_add as t; sys.exit(t.check_all())')
    monkeypatch.setenv('REBNN_ISA', isa)
    done = run_script(script)
    if 'which this processor lacks' in done.stderr:
        pytest.skip(f'no {isa} here')
    assert done.returncode == 0, done.stdout + done.stderr


def check_all() -> int:
    """0 if every size gives what NumPy does; for another process."""
    every = [inputs(*size) for size in SIZES]
    return sum(not same_bits(session('kernel').run(None, feeds)[0], expected(feeds)) for feeds in every)
