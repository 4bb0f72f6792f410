import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from rebnn_mm.export import OPERATORS, attach_functions, operator_function, pack_bits, pack_weight
from tests.export import reference
from tests.export.graphs import one_node, parsed, run

VECTORS = ('scale', 'mul', 'add', 'pre', 'slope', 'post', 'next_shift')
BLOCK = 'scale mul add R pre slope post next_shift'
SPECIAL = np.array([0.0, -0.0, np.nan, 1e-45, -1e-45, np.inf, -np.inf], np.float32)


def options(channels, **changes):
    plain = dict(strides=[1, 1], dilations=[1, 1], pads=[0, 0, 0, 0], group=1, pad_value=0, layout='NCHW')
    return dict(plain, channels=channels, **changes)


# channels per group, output channels, kernel, height and width, what is not as usual
CASES = {
    'one pixel': (3, 2, (1, 1), (1, 1), {}),
    'a map inside its border': (8, 3, (3, 3), (1, 2), dict(pads=[1, 1, 1, 1])),
    'odd channels': (31, 5, (3, 3), (5, 6), dict(pads=[1, 1, 1, 1])),
    'two bytes': (13, 9, (3, 3), (6, 5), dict(pads=[1, 1, 1, 1], strides=[2, 2])),
    'padded with -1': (9, 4, (3, 3), (5, 4), dict(pads=[1, 1, 1, 1], pad_value=-1)),
    'padded with +1': (9, 4, (3, 3), (5, 4), dict(pads=[1, 1, 1, 1], pad_value=1)),
    'uneven border': (7, 3, (5, 3), (7, 9), dict(pads=[0, 2, 3, 1], strides=[2, 1])),
    'wide dilation': (5, 3, (3, 3), (9, 8), dict(pads=[6, 6, 6, 6], dilations=[6, 6])),
    'groups': (5, 6, (3, 3), (4, 4), dict(pads=[1, 1, 1, 1], group=3)),
    'one channel per group': (1, 8, (3, 3), (4, 5), dict(pads=[1, 1, 1, 1], group=8)),
}


@pytest.fixture(params=CASES, ids=str)
def case(request):
    """Signs of the weight, input with special values, attributes and one vector of each kind."""
    channels, out, kernel, size, changes = CASES[request.param]
    rng = np.random.default_rng(len(request.param))
    given = options(channels, **changes)
    w = rng.choice([-1.0, 1.0], (out, channels, *kernel)).astype(np.float32)
    x = rng.normal(size=(2, channels * given['group'], *size)).astype(np.float32)
    x.flat[:: max(x.size // 20, 1)] = np.resize(SPECIAL, len(x.flat[:: max(x.size // 20, 1)]))
    vectors = {name: rng.normal(size=out).astype(np.float32) for name in VECTORS}
    shift = (rng.normal(size=x.shape[1]) * (np.arange(x.shape[1]) % 2)).astype(np.float32)
    return w, x, given, vectors, shift


def real_layout(x, layout):
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == 'NHWC' else x


@pytest.mark.parametrize('layout', ['NCHW', 'NHWC'])
def test_a_block_computes_the_sums_and_the_steps_as_written(case, layout):
    w, x, given, vectors, shift = case
    a = reference.sums(reference.signs(x, shift), w.astype(np.int64), given)
    residual = np.random.default_rng(0).normal(size=a.shape).astype(np.float32)
    y = reference.block(a, {k: v for k, v in vectors.items() if k != 'next_shift'}, residual)
    inputs = {'X': real_layout(x, layout), 'R': real_layout(residual, layout)}
    model = one_node(
        'BinaryBlock',
        inputs,
        {'W': pack_weight(w), 'shift': shift, **vectors},
        {'Y': TensorProto.FLOAT, 'P': TensorProto.UINT8},
        given | {'layout': layout},
        f'X W shift {BLOCK}',
    )
    found, bits = run(model, inputs)
    assert np.array_equal(found, real_layout(y, layout), equal_nan=True)
    assert np.array_equal(bits, pack_bits(real_layout(y + vectors['next_shift'].reshape(1, -1, 1, 1), 'NHWC')))


def test_a_block_may_clip_what_it_gives(case):
    w, x, given, vectors, shift = case
    a = reference.sums(reference.signs(x, shift), w.astype(np.int64), given)
    zero = np.zeros((1, 1, 1, 1), np.float32)
    y = reference.block(a, {k: v for k, v in vectors.items() if k != 'next_shift'}, zero)
    clipped = np.clip(y, np.float32(-0.5), np.float32(2))
    model = one_node(
        'BinaryClipBlock',
        {'X': x},
        {'W': pack_weight(w), 'shift': shift, **vectors, 'R': zero},
        {'Y': TensorProto.FLOAT, 'P': TensorProto.UINT8},
        given | {'low': -0.5, 'high': 2.0},
        f'X W shift {BLOCK}',
    )
    found, bits = run(model, {'X': x})
    assert np.array_equal(found, clipped, equal_nan=True)
    assert np.array_equal(bits, pack_bits(real_layout(clipped + vectors['next_shift'].reshape(1, -1, 1, 1), 'NHWC')))


@pytest.mark.parametrize('optimised', [True, False])
def test_a_convolution_gives_its_integers_exactly(case, optimised):
    w, x, given, vectors, shift = case
    a = reference.sums(reference.signs(x, shift), w.astype(np.int64), given)
    constants = {'W': pack_weight(w), 'shift': shift, 'scale': vectors['scale'], 'bias': vectors['add']}
    outputs = {'Y': TensorProto.FLOAT}
    model = one_node('BinaryConv', {'X': x}, constants, outputs, given, 'X W shift scale bias')
    # An optimiser that folded the scale into the weights would give other roundings.
    y = a.astype(np.float32) * vectors['scale'].reshape(1, -1, 1, 1) + vectors['add'].reshape(1, -1, 1, 1)
    assert np.array_equal(run(model, {'X': x}, optimised)[0], y)


@pytest.mark.parametrize('case', [name for name in CASES if 'group' not in CASES[name][-1]], ids=str, indirect=True)
@pytest.mark.parametrize('operator', ['PackedBinaryConv', 'PackedBinaryBlock'])
def test_packed_input_gives_the_same(case, operator):
    w, x, given, vectors, shift = case
    a = reference.sums(reference.signs(x, shift), w.astype(np.int64), given)
    bits = pack_bits(np.moveaxis(reference.signs(x, shift), 1, -1))
    zero = np.zeros((1, 1, 1, 1), np.float32)
    if operator == 'PackedBinaryConv':
        constants, order = {'scale': vectors['scale'], 'bias': vectors['add']}, 'P W scale bias'
        y = a.astype(np.float32) * vectors['scale'].reshape(1, -1, 1, 1) + vectors['add'].reshape(1, -1, 1, 1)
    else:
        constants, order = vectors | {'R': zero}, f'P W {BLOCK}'
        y = reference.block(a, {k: v for k, v in vectors.items() if k != 'next_shift'}, zero)
    outputs = {'Y': TensorProto.FLOAT} | ({'': 0} if operator == 'PackedBinaryBlock' else {})
    model = one_node(operator, {'P': bits}, {'W': pack_weight(w), **constants}, outputs, given, order)
    assert np.array_equal(run(model, {'P': bits})[0], y)


EMPTY = {
    'BinaryConv': ('X', {'Y': (0, 9, 4, 5)}, 'X W shift scale bias'),
    'BinaryBlock': ('X', {'Y': (0, 9, 4, 5), 'P': (0, 4, 5, 2)}, f'X W shift {BLOCK}'),
    'BinaryClipBlock': ('X', {'Y': (0, 9, 4, 5), 'P': (0, 4, 5, 2)}, f'X W shift {BLOCK}'),
    'PackedBinaryConv': ('P', {'Y': (0, 9, 4, 5)}, 'P W scale bias'),
    'PackedBinaryBlock': ('P', {'Y': (0, 9, 4, 5), 'Q': (0, 4, 5, 2)}, f'P W {BLOCK}'),
    'PackedBinaryClipBlock': ('P', {'Y': (0, 9, 4, 5), 'Q': (0, 4, 5, 2)}, f'P W {BLOCK}'),
}


@pytest.mark.parametrize('layout', ['NCHW', 'NHWC'])
@pytest.mark.parametrize('operator', EMPTY)
def test_no_images_give_empty_results(operator, layout):
    """As the kernels do: a second stage has no regions where nothing was proposed."""
    given, shapes, order = EMPTY[operator]
    pixels = np.zeros((0, 4, 5, 13), np.float32)
    inputs = {
        given: pack_bits(pixels) if given == 'P' else pixels if layout == 'NHWC' else pixels.transpose(0, 3, 1, 2)
    }
    vectors = {name: np.ones(9, np.float32) for name in (*VECTORS, 'bias')} | {'shift': np.ones(13, np.float32)}
    vectors |= {'W': pack_weight(np.ones((9, 13, 3, 3), np.float32)), 'R': np.zeros((1, 1, 1, 1), np.float32)}
    clip = {'low': -0.5, 'high': 2.0} if 'Clip' in operator else {}
    model = one_node(
        operator,
        inputs,
        {name: vectors[name] for name in order.split()[1:]},
        {name: TensorProto.FLOAT if name == 'Y' else TensorProto.UINT8 for name in shapes},
        options(13, pads=[1, 1, 1, 1]) | clip | {'layout': layout},
        order,
    )
    if layout == 'NHWC':
        shapes = shapes | {'Y': (0, 4, 5, 9)}
    assert [y.shape for y in run(model, inputs)] == list(shapes.values())


@pytest.mark.parametrize('channels', [1, 8, 33])
def test_a_linear_layer(channels):
    rng = np.random.default_rng(channels)
    w = rng.choice([-1.0, 1.0], (5, channels)).astype(np.float32)
    x = rng.normal(size=(2, 3, channels)).astype(np.float32)
    x[0, :, 0] = SPECIAL[:3]
    shift, scale, bias = (rng.normal(size=n).astype(np.float32) for n in (channels, 5, 5))
    constants = {'W': pack_weight(w), 'shift': shift, 'scale': scale, 'bias': bias}
    model = one_node(
        'BinaryLinear', {'X': x}, constants, {'Y': TensorProto.FLOAT}, {'channels': channels}, 'X W shift scale bias'
    )
    a = np.where(x + shift < 0, -1, 1) @ w.astype(np.int64).T
    assert np.array_equal(run(model, {'X': x})[0], a.astype(np.float32) * scale + bias)


def test_onnx_itself_reads_the_functions_the_same_way(case):
    w, x, given, vectors, shift = case
    constants = {'W': pack_weight(w), 'shift': shift, 'scale': vectors['scale'], 'bias': vectors['add']}
    outputs = {'Y': TensorProto.FLOAT}
    model = one_node('BinaryConv', {'X': x}, constants, outputs, given, 'X W shift scale bias')
    (found,) = ReferenceEvaluator(model).run(None, {'X': x})
    assert np.array_equal(found, run(model, {'X': x})[0])


def test_attributes_have_the_defaults_of_the_format():
    w = np.random.default_rng(0).choice([-1.0, 1.0], (2, 3, 1, 1)).astype(np.float32)
    x = np.random.default_rng(1).normal(size=(1, 3, 4, 4)).astype(np.float32)
    vector = np.ones(2, np.float32)
    constants = {'W': pack_weight(w), 'shift': np.zeros(3, np.float32), 'scale': vector, 'bias': 0 * vector}
    for given in ({'channels': 3}, options(3)):
        model = one_node('BinaryConv', {'X': x}, constants, {'Y': TensorProto.FLOAT}, given, 'X W shift scale bias')
        (y,) = run(model, {'X': x})
        assert np.array_equal(y, reference.sums(reference.signs(x, constants['shift']), w.astype(int), options(3)))


def test_only_functions_in_use_are_attached():
    model = parsed(
        'g (float[1, 8] x, uint8[2, 1] w, float[8] s, float[2] a, float[2] b) => (float[1, 2] y)'
        '{ y = rebnn.BinaryLinear <channels = 8> (x, w, s, a, b) }'
    )
    assert [function.name for function in model.functions] == ['BinaryLinear']
    del model.graph.node[:]
    attach_functions(model)
    assert not model.functions and {entry.domain for entry in model.opset_import} == {''}


def test_a_node_inside_a_subgraph_counts():
    model = parsed(
        'g (bool c, float[1, 8] x, uint8[2, 1] w, float[8] s, float[2] a) => (float[1, 2] y)'
        '{ y = If (c) <then_branch = t () => (float[1, 2] p) {p = rebnn.BinaryLinear <channels = 8> (x, w, s, a, a)},'
        ' else_branch = f () => (float[1, 2] q) {q = Identity (x)}> }'
    )
    assert [function.name for function in model.functions] == ['BinaryLinear']


def test_an_unknown_operator_is_named():
    node = onnx.helper.make_node('BinaryPool', ['x'], ['y'], domain='rebnn')
    model = onnx.helper.make_model(onnx.helper.make_graph([node], 'g', [], []))
    with pytest.raises(ValueError, match='rebnn.BinaryPool is not an operator; there are BinaryConv, '):
        attach_functions(model)


@pytest.mark.parametrize('name', OPERATORS)
def test_functions_are_of_standard_operators_only(name):
    function = operator_function(name)
    assert {node.domain for node in function.node} == {''}
    assert [(entry.domain, entry.version) for entry in function.opset_import] == [('', 18)]
    outputs = [name for node in function.node for name in node.output]
    assert len(outputs) == len(set(outputs))
