"""The number of classes of a detector is found in its graph, wherever the exporter or another tool keeps it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rebnn_mm.deploy import ModelFileError, load
from rebnn_mm.deploy.class_count import label_count
from rebnn_mm.deploy.zoo import FOLDER

from . import models


def graph_of(*nodes, **constants):
    initializers = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    outputs = [helper.make_tensor_value_info('labels', TensorProto.INT64, ['K'])]
    return helper.make_model(helper.make_graph(nodes, 'g', [], outputs, initializers))


@pytest.mark.parametrize('name', ['blood-cells-tiny', 'blood-cells'])
@pytest.mark.parametrize('names', [['RBC', 'WBC'], ['RBC', 'WBC', 'Platelets', 'dust']])
def test_a_file_of_the_zoo_with_other_names(tmp_path, name, names):
    """Two names were a wrong answer only where the third class was found; four were never noticed."""
    proto = onnx.load(FOLDER / f'{name}.onnx')
    entries = {entry.key: entry.value for entry in proto.metadata_props if entry.key != 'rebnn.file_sha256'}
    helper.set_model_props(proto, entries | {'rebnn.classes': str(names).replace("'", '"')})
    with pytest.raises(ModelFileError, match=f'model.onnx: it gives the labels of 3 classes, and names {len(names)}$'):
        load(models.write(proto, tmp_path / 'model.onnx'), use_library=False)


def test_constants_as_nodes_and_as_initializers():
    mod = helper.make_node('Mod', ['x', 'n'], ['labels'])
    constant = helper.make_node('Constant', [], ['n'], value=numpy_helper.from_array(np.array(7)))
    assert label_count(graph_of(constant, mod).SerializeToString()) == 7
    assert label_count(graph_of(mod, n=7).SerializeToString()) == 7


def test_levels_must_agree():
    levels = [helper.make_node('Mod', ['x', name], [f'labels_{name}']) for name in 'ab']
    join = helper.make_node('Concat', ['labels_a', 'labels_b'], ['labels'], axis=0)
    assert label_count(graph_of(*levels, join, a=4, b=4).SerializeToString()) == 4
    assert label_count(graph_of(*levels, join, a=4, b=5).SerializeToString()) is None


@pytest.mark.parametrize(
    'nodes',
    [
        [],
        [('Gather', ['labels', 'i'], ['labels'])],
        [('Gather', [], ['labels'])],
        [('Mod', ['x'], ['labels'])],
        [('Mod', ['x', 'unknown'], ['labels'])],
        [('ArgMax', [], ['labels'])],
        [('ArgMax', ['rows'], ['labels'])],
        [('Reshape', ['x', 'open'], ['rows']), ('ArgMax', ['rows'], ['labels'])],
        [('Reshape', ['x', 'n'], ['labels'])],
        [('TopK', ['x', 'n'], ['values', 'labels'])],
    ],
    ids=str,
)
def test_graphs_that_do_not_say_it(nodes):
    made = [helper.make_node(operator, inputs, outputs) for operator, inputs, outputs in nodes]
    assert label_count(graph_of(*made, n=3, open=[1, -1]).SerializeToString()) is None
