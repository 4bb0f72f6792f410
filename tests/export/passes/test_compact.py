import numpy as np
import pytest
from onnx import numpy_helper

from rebnn_mm.export import apply_passes
from rebnn_mm.export.passes import Compact
from tests.export.graphs import parsed, run


def listed(values):
    return ', '.join(map(str, values))


def graph(vectors='zeros, mixed, zeros'):
    return parsed(
        f"""g (float[1, 16, 4, 4] x) => (float[1, 16, 4, 4] y)
        <uint8[16, 1, 1, 2] w = {{{listed(range(32))}}}, float[16] zeros = {{{listed([0] * 16)}}},
         float[1, 16, 1, 1] map = {{{listed([1] * 16)}}}, float[16] mixed = {{{listed([0] * 16)}}},
         float[16] rising = {{{listed(range(16))}}}, float[2] short = {{3, 3}}, float[1, 16, 4, 4] c>
        {{
          [layer] c = rebnn.BinaryConv
            <channels = 16, strides = [1, 1], pads = [1, 0, 1, 0], group = 1, layout = "NCHW"> (x, w, {vectors})
          [behind] y = Mul (c, map)
        }}"""
    )


@pytest.fixture(scope='module')
def pair():
    model = graph()
    (mixed,) = (tensor for tensor in model.graph.initializer if tensor.name == 'mixed')
    values = np.zeros(16, np.float32)
    values[-1] = -0.0  # which the parser reads as 0
    mixed.CopyFrom(numpy_helper.from_array(values, 'mixed'))
    return model, apply_passes(model, Compact())


def test_the_result_is_the_same():
    x = np.random.default_rng(0).normal(size=(1, 16, 4, 4)).astype(np.float32)
    model = graph('zeros, rising, zeros')
    expected, found = (run(model, {'x': x})[0] for model in (model, apply_passes(model, Compact())))
    assert expected.any() and np.array_equal(expected, found)


def test_vectors_of_one_value_are_made_and_not_stored(pair):
    stored = {tensor.name: tensor for tensor in pair[1].graph.initializer}
    # One of zero and negative zero stays, and so do a map and what is short.
    assert set(stored) == {'w', 'map', 'mixed', 'rising', 'short', 'length_16'}
    made = [(node.op_type, list(node.output)) for node in pair[1].graph.node if node.op_type == 'ConstantOfShape']
    assert made == [('ConstantOfShape', ['zeros'])]


def test_defaults_names_and_inner_shapes_are_left_out(pair):
    conv, mul = pair[1].graph.node[-2:]
    assert conv.name == 'layer' and mul.name == '' and not pair[1].graph.value_info
    assert {attribute.name for attribute in conv.attribute} == {'channels', 'pads'}
