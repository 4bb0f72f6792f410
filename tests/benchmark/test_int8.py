"""The quantized network: what is quantized, and that it still computes the same."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.benchmark.int8 import quantize, saturates
from rebnn_mm.benchmark.timing import noise_feeds, open_timed


@pytest.fixture(scope='module')
def real(tmp_path_factory) -> Path:
    """A residual block, and scores that are not part of a network's layers."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)
        for name, shape in (('w1', (8, 3, 3, 3)), ('w2', (8, 8, 3, 3)))
    ]
    nodes = [
        helper.make_node('Conv', ['image', 'w1'], ['a'], pads=[1] * 4, name='first'),
        helper.make_node('Relu', ['a'], ['b'], name='relu'),
        helper.make_node('Conv', ['b', 'w2'], ['c'], pads=[1] * 4, name='second'),
        helper.make_node('Add', ['c', 'b'], ['d'], name='shortcut'),
        helper.make_node('Relu', ['d'], ['e'], name='last'),
        helper.make_node('Sigmoid', ['e'], ['f'], name='scores'),
        helper.make_node('Add', ['f', 'f'], ['y'], name='arithmetic'),
    ]
    image = helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, 'H', 'W'])
    y = helper.make_tensor_value_info('y', TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, 'real', [image], [y], weights)
    path = tmp_path_factory.mktemp('int8') / 'real.onnx'
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9), path)
    return path


def test_layers_are_quantized_per_channel_and_arithmetic_is_not(real):
    model = quantize(real, (16, 24))
    made = {output: node for node in model.graph.node for output in node.output}
    for node in model.graph.node:
        if node.op_type in ('Conv', 'Relu') or node.name == 'shortcut':
            assert all(made[name].op_type == 'DequantizeLinear' for name in node.input), node.name
        if node.op_type in ('Sigmoid', 'Add') and node.name != 'shortcut':
            assert all(made[name].op_type != 'QuantizeLinear' for name in node.input)
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert scales['w2_scale'].shape == (8,) and len(set(scales['w2_scale'])) == 8


def test_nodes_without_names_are_told_apart(real, tmp_path):
    """Exported files leave the names of standard nodes out."""
    model = onnx.load(real)
    for node in model.graph.node:
        node.name = ''
    onnx.save(model, tmp_path / 'unnamed.onnx')
    kinds = [
        [node.op_type for node in quantize(path, (16, 24)).graph.node] for path in (real, tmp_path / 'unnamed.onnx')
    ]
    assert kinds[0] == kinds[1]


def test_it_gives_nearly_the_same(real, tmp_path):
    session = open_timed(real, False, 1)
    feeds = noise_feeds(session, (16, 24), seed=99)
    first = session.run(None, feeds)[0]
    onnx.save(quantize(real, (16, 24)), tmp_path / 'int8.onnx')
    second = open_timed(tmp_path / 'int8.onnx', False, 1).run(None, feeds)[0]
    assert first.shape == second.shape == (1, 8, 16, 24)
    # scores run from 1 to 2; 8 bits over the range of the values before the sigmoid, weights with 7 where 8 saturate
    assert 0 < np.abs(first - second).max() < (0.2 if saturates() else 0.1)


def test_a_file_that_takes_no_image_is_refused(tmp_path):
    text = helper.make_tensor_value_info('ids', TensorProto.INT64, ['N', 'L'])
    out = helper.make_tensor_value_info('y', TensorProto.INT64, None)
    graph = helper.make_graph([helper.make_node('Identity', ['ids'], ['y'])], 'text', [text], [out])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9), tmp_path / 't.onnx')
    with pytest.raises(ValueError, match=r'the input ids is a tensor\(int64\).*neither an image nor the size of one'):
        quantize(tmp_path / 't.onnx', (8, 8))
