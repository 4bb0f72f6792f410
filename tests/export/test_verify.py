import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from rebnn_mm.export import verify as module
from rebnn_mm.export.exporter import noise
from rebnn_mm.export.task import Task
from rebnn_mm.export.verify import verify
from tests.export.conftest import PREPROCESS

TASK = Task('classification')


@pytest.fixture
def model(exported):
    model = onnx.ModelProto.FromString(exported.data)
    return model


@pytest.fixture(scope='module')
def images():
    return noise(PREPROCESS, (16, 12))


def changed(model, name, change):
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), name))
    return model


def test_weights_that_are_wrong_show_at_the_layer_behind(model, classifier, images):
    wrong = changed(model, 'backbone.layer1.0.conv2.bits', lambda bits: bits ^ 1)
    with pytest.raises(
        ValueError, match=r'differs from PyTorch first at backbone.layer1.1.conv1: \d+ of the 1536 signs'
    ):
        verify(wrong, classifier, TASK, images)


def test_a_real_layer_that_is_wrong_is_told_from_a_binary_one(model, classifier, images):
    wrong = changed(model, 'head.fc.bias', lambda bias: bias + np.arange(5, dtype=np.float32))
    with pytest.raises(ValueError, match='although every sign is the same: a real-valued operator'):
        verify(wrong, classifier, TASK, images)


def test_a_few_signs_next_to_zero_are_counted_and_no_error(model, classifier, images, monkeypatch):
    monkeypatch.setattr(module, 'DIFFERENCE', 1.0)
    slightly = changed(model, 'backbone.layer1.0.conv1.scale', lambda scale: scale * np.float32(1.01))
    found = verify(slightly, classifier, TASK, images)
    first = next(flips for flips in found.flips.values() if flips.flipped)
    assert 0 < first.flipped <= module.FEW * len(images)
    assert found.flipped.flipped == sum(flips.flipped for flips in found.flips.values())


def test_an_output_of_another_shape(model, classifier, images):
    wrong = changed(model, 'head.fc.weight', lambda weight: weight[:4])
    changed(wrong, 'head.fc.bias', lambda bias: bias[:4])
    model.graph.output[0].ClearField('type')
    model.graph.output[0].type.tensor_type.elem_type = 1
    for dim in ('n', 'classes'):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = dim
    with pytest.raises(ValueError, match=r'an output has the shape \(1, 4\), but in PyTorch \(1, 5\)'):
        verify(wrong, classifier, TASK, images)


def test_a_graph_that_is_not_valid(model, classifier, images):
    model.graph.node[-1].input[0] = 'nowhere'
    with pytest.raises(ValueError, match='^the exported graph is not valid: .*nowhere'):
        verify(model, classifier, TASK, images)


def test_values_that_are_not_finite(model, classifier, images):
    wrong = changed(model, 'head.fc.bias', lambda bias: bias * np.float32('nan'))
    with pytest.raises(ValueError, match='an output is not finite where it is in PyTorch'):
        verify(wrong, classifier, TASK, images)
