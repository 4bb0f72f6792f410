"""The builder: standard operators, constants, and parts that are joined."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from rebnn_mm.export.detection.graph import GraphBuilder

from .detectors import run

FLOAT = ir.DataType.FLOAT


def scaled(factor: float, size: str = 'n') -> ir.Model:
    """x * factor + factor, with the factor as a parameter called ``w``."""
    g = GraphBuilder('part')
    x = g.input('x', FLOAT, [size])
    w = ir.val('w', dtype=FLOAT, shape=[1], const_value=ir.tensor(np.array([factor], np.float32), name='w'))
    g.graph.register_initializer(w)
    y = g('Add', g('Mul', x, w), w)
    g.output('y', y, FLOAT, [size])
    return g.finish()


def test_numbers_become_constants_of_their_kind():
    g = GraphBuilder('kinds')
    x = g.input('x', FLOAT, ['n'])
    g.output('double', g('Mul', x, 2.0), FLOAT, ['n'])
    g.output('halves', g('Concat', x, [0.5, 0.25], axis=0), FLOAT, ['m'])
    g.output('first', g('Gather', x, [0]), FLOAT, [1])
    g.output('plus', g('Add', x, np.arange(3.0)), FLOAT, ['n'])
    assert not g.graph.initializers
    double, halves, first, plus = run(g, x=np.array([1, 2, 3], np.float32))
    assert double.tolist() == [2, 4, 6]
    assert halves.tolist() == [1, 2, 3, 0.5, 0.25]
    assert first.tolist() == [1]
    assert plus.tolist() == [1, 3, 5]


def test_parts_that_share_all_names_are_joined_one_after_the_other():
    g = GraphBuilder('joined')
    x = g.input('x', FLOAT, ['n'])
    (y,) = g.insert(scaled(2.0), x)
    (z,) = g.insert(scaled(3.0), g('Concat', y, [1.0], axis=0))
    g.output('y', z, FLOAT, ['m'])
    model = ir.to_proto(g.finish())
    names = [name for node in model.graph.node for name in node.output]
    assert len(names) == len(set(names))
    assert sorted(onnx.numpy_helper.to_array(w).item() for w in model.graph.initializer) == [2, 3]
    assert run(model, x=np.array([0, 1], np.float32))[0].tolist() == [9, 15, 6]


def test_functions_of_parts_come_along_once():
    function = ir.Function(
        'rebnn', 'Same', graph=ir.Graph([ir.val('a')], [], nodes=[], opset_imports={'': 18}), attributes=[]
    )
    node = ir.node('Identity', [function.inputs[0]])
    function.append(node)
    function.outputs.append(node.outputs[0])
    g = GraphBuilder('joined')
    value = g.input('x', FLOAT, ['n'])
    for _ in range(2):
        part = scaled(1.0)
        part.functions[function.identifier()] = function
        part.graph.opset_imports['rebnn'] = 1
        (value,) = g.insert(part, value)
    g.output('y', value, FLOAT, ['n'])
    model = g.finish()
    assert list(model.functions) == [('rebnn', 'Same', '')]
    assert model.opset_imports == {'': 18, 'rebnn': 1}


def test_a_part_takes_exactly_its_inputs():
    g = GraphBuilder('joined')
    x = g.input('x', FLOAT, ['n'])
    with pytest.raises(ValueError, match='longer'):
        g.insert(scaled(1.0), x, x)


@pytest.mark.parametrize(('at_most', 'count'), [(2, 2), (9, 3), (0, 3), (-1, 3)])
def test_all_is_limited_where_the_limit_is_above_zero(at_most, count):
    g = GraphBuilder('count')
    x = g.input('x', FLOAT, ['n', 4])
    g.output('y', g.all(x, at_most), ir.DataType.INT64, [1])
    assert run(g, x=np.zeros((3, 4), np.float32))[0].tolist() == [count]
