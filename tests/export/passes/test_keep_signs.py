"""A GELU gives way to a comparison where only its sign is wanted."""

import numpy as np
import pytest
from onnx import TensorProto, helper

pytest.importorskip('transformers')

from rebnn_mm.deploy.session import open_session
from rebnn_mm.export import apply_passes, pack
from rebnn_mm.export.passes import KeepSigns
from rebnn_mm.export.passes.keep_signs import SATURATED
from rebnn_mm.export.tasks import text_graph
from tests.export.texts import classifier
from tests.models.language.tiny import BINARY


def test_one_comparison_has_the_signs_of_gelu():
    x = np.concatenate([np.linspace(-8, 8, 100001), SATURATED + np.linspace(-1e-5, 1e-5, 1001), [0, np.nan, -1e-42]])
    numbers = {'s': 2**0.5, 't': 1.0, 'h': 0.5}
    values = [helper.make_tensor(name, TensorProto.FLOAT, [], [number]) for name, number in numbers.items()]
    nodes = [
        helper.make_node('Div', ['x', 's'], ['d']),
        helper.make_node('Erf', ['d'], ['e']),
        helper.make_node('Add', ['e', 't'], ['a']),
        helper.make_node('Mul', ['x', 'a'], ['m']),
        helper.make_node('Mul', ['m', 'h'], ['y']),
        helper.make_node('ThresholdedRelu', ['x'], ['z'], alpha=SATURATED),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in 'xyz']
    graph = helper.make_graph(nodes, 'gelu', ends[:1], ends[1:], values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
    y, z = open_session(model.SerializeToString(), library=False).run(None, {'x': x.astype(np.float32)})
    assert np.array_equal(y < 0, z < 0)


@pytest.mark.slow
def test_gelu_goes_only_where_nothing_but_its_sign_is_wanted(tmp_path):
    model = classifier(tmp_path / 'plain')
    graph = apply_passes(text_graph(pack(model).model), KeepSigns()).graph
    assert {tensor.name for tensor in graph.initializer} <= {name for node in graph.node for name in node.input}
    kinds = [node.op_type for node in graph.node]
    assert 'Erf' not in kinds and kinds.count('ThresholdedRelu') == 1
    linear = {**BINARY['binarize']['linear'], 'activation': dict(type='BinarySign', shift='zero')}
    shifted = classifier(tmp_path / 'shifted', binarize=dict(BINARY['binarize'], linear=linear))
    for name, value in shifted.named_parameters():
        if name.endswith('shift'):
            value.data.normal_(0, 0.1)
    kinds = [node.op_type for node in apply_passes(text_graph(pack(shifted).model), KeepSigns()).graph.node]
    assert kinds.count('Erf') == 1
