"""The packed embedding and the attention of signs: kernel, function body and PyTorch layer against NumPy."""

import re

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.deploy import native
from rebnn_mm.export.operators import attach_functions
from rebnn_mm.export.packing import pack_bits
from rebnn_mm.layers import BinaryAttention, BinaryEmbedding
from tests.runtime.operator_cases import same_bits, with_odd_values

RUNS = ['kernel', 'function']


def session(node, inputs: dict[str, int], constants=(), run: str = 'kernel') -> onnxruntime.InferenceSession:
    """A model of one node; ``run`` says who computes it."""
    graph = helper.make_graph(
        [node],
        'one',
        [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()],
        [helper.make_tensor_value_info('Y', TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if run == 'kernel':
        native.register(options)
    data = attach_functions(model).SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=['CPUExecutionProvider'])


def attention_session(run: str, tie: int | None = None, **attributes) -> onnxruntime.InferenceSession:
    attributes |= {} if tie is None else {'tie': tie}
    node = helper.make_node(
        'BinaryAttention', ['Q', 'K', 'V', 'mask'], ['Y'], 'attention', domain='rebnn', **attributes
    )
    kinds = dict.fromkeys('QKV', TensorProto.FLOAT)
    return session(node, {**kinds, 'mask': TensorProto.BOOL}, run=run)


def embedding_session(run: str, signs: np.ndarray, **attributes) -> onnxruntime.InferenceSession:
    attributes = {'channels': signs.shape[1]} | attributes
    node = helper.make_node('BinaryEmbedding', ['ids', 'W', 'scale'], ['Y'], 'words', domain='rebnn', **attributes)
    constants = [('W', pack_bits(signs)), ('scale', np.linspace(0.1, 2, len(signs), dtype=np.float32))]
    return session(node, {'ids': TensorProto.INT64}, constants, run)


def texts(length: int, size: int, batch: int = 2, heads: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    """Queries, keys and values with every number that a sign may be asked of, and padding."""
    rng = np.random.default_rng(seed)
    arrays = {name: with_odd_values(rng, (batch, length, heads, size)) for name in 'QKV'}
    lengths = rng.integers(1, length + 1, batch)
    return {**arrays, 'mask': (np.arange(length) < lengths[:, None])[:, None, None]}


def attended(arrays: dict[str, np.ndarray], tie: bool = True) -> np.ndarray:
    """What docs/operators.md says, in whole numbers."""
    q, k, v = (np.where(arrays[name] < 0, -1, 1).transpose(0, 2, 1, 3) for name in 'QKV')
    scores = q @ k.swapaxes(-1, -2)
    near = (scores >= 0) if tie else (scores > 0)
    return ((near & arrays['mask']).astype(np.int64) @ v).transpose(0, 2, 1, 3).astype(np.float32)


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('size', [1, 20, 32, 64])
@pytest.mark.parametrize('length', [1, 7, 33, 130])
def test_attention_equals_numpy(run, length, size):
    arrays = texts(length, size)
    for tie in (None, 1, 0):
        (y,) = attention_session(run, tie).run(None, arrays)
        assert same_bits(y, attended(arrays, tie is None or tie == 1)), tie


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('shape', [(1, 1, 1, 1), (2, 1, 1, 1), (1, 1, 1, 9)])
def test_one_truth_may_stand_for_many(run, shape):
    arrays = texts(9, 32)
    arrays['mask'] = np.random.default_rng(1).integers(0, 2, shape).astype(bool)
    (y,) = attention_session(run).run(None, arrays)
    assert same_bits(y, attended(arrays))


@pytest.mark.parametrize('run', RUNS)
def test_who_may_attend_to_nothing_gets_zeros(run):
    arrays = texts(33, 64)
    arrays['mask'][1] = False
    (y,) = attention_session(run).run(None, arrays)
    assert np.abs(y[0]).max() > 0 and np.array_equal(y[1], np.zeros_like(y[1]))


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('batch', [0, 1])
def test_batches_may_be_empty(run, batch):
    arrays = {name: value[:batch] for name, value in texts(5, 8).items()}
    (y,) = attention_session(run).run(None, arrays)
    assert y.shape == (batch, 5, 3, 8)


@pytest.mark.parametrize('tie', [True, False])
@pytest.mark.parametrize(('length', 'size'), [(1, 64), (7, 32), (33, 64)])
def test_attention_equals_the_layer(length, size, tie):
    arrays = texts(length, size)
    layer = BinaryAttention(heads=3, head_dim=size, tie=tie).eval()
    q, k, v = (torch.from_numpy(arrays[name]).transpose(1, 2) for name in 'QKV')
    q, k, v = (torch.nan_to_num(x) for x in (q, k, v))
    expected = layer(q, k, v, torch.from_numpy(arrays['mask']), 0.0, size**-0.5).output
    (y,) = attention_session('kernel', int(tie)).run(None, arrays)
    assert same_bits(y, expected.numpy())


def test_threads_change_nothing():
    arrays = texts(65, 64, batch=3)
    assert len({attention_session('kernel').run(None, arrays)[0].tobytes() for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'Q': (2, 9, 96)}, 'Q has the shape [2, 9, 96]; it must be [B, L, H, D].'),
        ({'K': (2, 9, 3, 31)}, 'K has the shape [2, 9, 3, 31]; it must be that of Q, [2, 9, 3, 32].'),
        ({'V': (1, 9, 3, 32)}, 'V has the shape [1, 9, 3, 32]; it must be that of Q'),
        ({'mask': (2, 9)}, 'mask has the shape [2, 9]; it must be [2, 1, 1, 9]'),
        ({'mask': (2, 1, 9, 9)}, 'mask has the shape [2, 1, 9, 9]'),
        ({'mask': (3, 1, 1, 9)}, 'mask has the shape [3, 1, 1, 9]'),
    ],
)
def test_wrong_shapes_give_a_sentence(change, words):
    arrays = texts(9, 32)
    for name, shape in change.items():
        arrays[name] = np.zeros(shape, arrays[name].dtype)
    with pytest.raises(Exception, match=re.escape(f"BinaryAttention 'attention': {words}")):
        attention_session('kernel').run(None, arrays)


def test_wrong_attributes_give_a_sentence():
    with pytest.raises(Exception, match='the attribute tie is 2; it must be 0 or 1'):
        attention_session('kernel', 2)
    with pytest.raises(Exception, match='the attribute tie must be an integer'):
        attention_session('kernel', tie=1.0)
    signs = np.ones((4, 9))
    with pytest.raises(Exception, match='the attribute channels is 0'):
        embedding_session('kernel', signs, channels=0)
    running = embedding_session('kernel', signs, channels=17)
    with pytest.raises(Exception, match=re.escape('W has the shape [4, 2]; it must be [V, 3] for 17 channels')):
        running.run(None, {'ids': np.zeros(1, np.int64)})


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('shape', [(), (5,), (2, 7), (0,), (3, 0), (2, 1, 3)])
@pytest.mark.parametrize('channels', [1, 8, 33])
def test_embedding_equals_numpy(run, shape, channels):
    rng = np.random.default_rng(channels)
    signs = np.where(rng.random((37, channels)) < 0.5, -1.0, 1.0).astype(np.float32)
    ids = rng.integers(-37, 37, shape)
    (y,) = embedding_session(run, signs).run(None, {'ids': ids})
    expected = signs[ids] * np.linspace(0.1, 2, 37, dtype=np.float32)[ids][..., None]
    assert same_bits(y, expected)


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('number', [37, -38, 2**40])
def test_unknown_ids_are_refused(run, number):
    running = embedding_session(run, np.ones((37, 8)))
    with pytest.raises(Exception, match=r'id \d+|id -\d+|indices'):
        running.run(None, {'ids': np.array([0, number])})


def test_embedding_equals_the_layer():
    torch.manual_seed(0)
    layer = BinaryEmbedding(37, 33).eval()
    ids = torch.randint(0, 37, (2, 9))
    codes, scale = layer.weight_quantizer.codes(layer.weight)
    node = helper.make_node('BinaryEmbedding', ['ids', 'W', 'scale'], ['Y'], domain='rebnn', channels=33)
    constants = [('W', pack_bits(codes.detach().numpy())), ('scale', scale.detach().numpy())]
    (y,) = session(node, {'ids': TensorProto.INT64}, constants).run(None, {'ids': ids.numpy()})
    assert same_bits(y, layer(ids).detach().numpy())
