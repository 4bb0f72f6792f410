"""A file holds what the exporter writes, and what it holds means the same with our kernels and without."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.deploy import ModelFileError, load
from rebnn_mm.deploy.onnx_file import function_digest, read_onnx
from rebnn_mm.deploy.operators import FUNCTIONS, STANDARD, check_operators
from rebnn_mm.deploy.zoo import FOLDER
from rebnn_mm.export.operators import OPERATORS, operator_function

from . import models

GOLDEN = Path(__file__).parents[1] / 'export/data'


def refused(proto, path):
    with pytest.raises(ModelFileError) as caught:
        load(models.write(proto, path), use_library=False)
    text = str(caught.value)
    assert '\n' not in text and text.startswith(f'{path}: ')
    return text


@pytest.mark.parametrize('name', OPERATORS)
def test_the_functions_are_those_of_the_exporter(name):
    function = operator_function(name)
    written = function.SerializeToString()
    for node in function.node:  # as tools do that write a file again
        node.domain, node.name, node.doc_string = '', 'another', 'note'
    again = function.SerializeToString()
    assert written != again
    assert [function_digest(memoryview(data)) for data in (written, again)] == [FUNCTIONS[name][0]] * 2


def test_every_known_operator_exists_and_none_holds_a_graph():
    assert FUNCTIONS.keys() == set(OPERATORS)
    schemas = {name: onnx.defs.get_schema(name) for name in STANDARD}
    kinds = {attribute.type.name for schema in schemas.values() for attribute in schema.attributes.values()}
    assert not kinds & {'GRAPH', 'GRAPHS'}


@pytest.mark.parametrize('path', [*FOLDER.glob('*.onnx'), *GOLDEN.glob('*.onnx')], ids=lambda path: path.name)
def test_files_that_were_written_stay_readable(path):
    check_operators(read_onnx(path.read_bytes()))


def test_a_function_that_computes_something_else(tmp_path):
    """With our kernels this file would give the right answer, and without them another one."""
    proto = models.raw()
    next(node for node in proto.functions[0].node if node.op_type == 'Less').op_type = 'Greater'
    assert "its function 'rebnn.BinaryConv' is not the one that rebnn export writes" in refused(
        proto, tmp_path / 'model.onnx'
    )


def test_a_function_that_is_missing(tmp_path):
    proto = models.raw()
    del proto.functions[:]
    assert 'it lacks the function that defines its operator rebnn.BinaryConv' in refused(proto, tmp_path / 'm.onnx')


def test_a_function_twice(tmp_path):
    proto = models.raw()
    proto.functions.append(proto.functions[0])
    assert "its function 'rebnn.BinaryConv' is not the one" in refused(proto, tmp_path / 'm.onnx')


def test_a_function_of_another_domain(tmp_path):
    proto = models.raw()
    node = helper.make_node('Identity', ['x'], ['y'])
    proto.functions.append(helper.make_function('other', 'Twice', ['x'], ['y'], [node], [models.OPSET]))
    assert "its function 'other.Twice' is not the one" in refused(proto, tmp_path / 'm.onnx')


@pytest.mark.parametrize('operator', ['If', 'Loop', 'Scan', 'SequenceMap', 'RandomNormal', 'StringConcat', 'Convolve'])
def test_operators_that_the_exporter_never_writes(tmp_path, operator):
    proto = models.raw()
    proto.graph.node[0].op_type = operator
    assert f'it has the operator {operator!r}, which no packed model has' in refused(proto, tmp_path / 'm.onnx')


@pytest.mark.parametrize('domain', ['com.microsoft', 'ai.onnx.ml', 'other'])
def test_operators_of_other_domains(tmp_path, domain):
    proto = models.raw()
    proto.graph.node[0].domain = domain
    assert f"it has the operator '{domain}.Conv'" in refused(proto, tmp_path / 'm.onnx')


def test_an_operator_of_ours_that_does_not_exist(tmp_path):
    proto = models.raw()
    proto.graph.node[2].op_type = 'BinaryConvolution'
    assert "it has the operator 'rebnn.BinaryConvolution'" in refused(proto, tmp_path / 'm.onnx')


def filled(shape):
    """A model with a constant of this shape."""
    proto = models.raw()
    proto.graph.initializer.append(shape)
    proto.graph.node.append(helper.make_node('ConstantOfShape', [shape.name], ['filled']))
    return proto


@pytest.mark.parametrize('shape', [[1 << 33], [1 << 20, 1 << 20], [2**62] * 40])
def test_a_constant_that_would_take_all_memory(tmp_path, shape):
    proto = filled(numpy_helper.from_array(np.array(shape), 'size'))
    assert 'its ConstantOfShape nodes would make more than 268435456 values' in refused(proto, tmp_path / 'm.onnx')


def test_many_constants_that_together_take_all_memory(tmp_path):
    proto = filled(numpy_helper.from_array(np.array([1 << 26]), 'size'))
    proto.graph.node.extend(helper.make_node('ConstantOfShape', ['size'], [f'more{i}']) for i in range(4))
    assert 'would make more than 268435456 values' in refused(proto, tmp_path / 'm.onnx')


def test_a_shape_that_is_not_raw(tmp_path):
    proto = filled(helper.make_tensor('size', TensorProto.INT64, [1], [1 << 33]))
    assert "the shape 'size' is not stored as raw int64" in refused(proto, tmp_path / 'm.onnx')


def test_sparse_tensors_and_graphs_for_training(tmp_path):
    proto = models.raw()
    values = numpy_helper.from_array(np.float32([1]), 'sparse')
    indices = numpy_helper.from_array(np.array([0]), 'places')
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [1 << 40]))
    assert 'it holds a sparse tensor' in refused(proto, tmp_path / 'sparse.onnx')
    proto = models.raw()
    proto.training_info.add()
    assert 'it holds a graph for training' in refused(proto, tmp_path / 'training.onnx')
