"""A raw model gives its outputs by name."""

import numpy as np
import onnxruntime

from rebnn_mm.deploy import load

from . import models


def test_outputs_are_those_of_the_graph(files, image):
    model = load(files['raw'], use_library=False)
    outputs = model(image)
    assert list(outputs) == ['maps'] and outputs['maps'].shape == (1, 16, 20, 28)
    session = onnxruntime.InferenceSession(files['raw'].read_bytes())
    (expected,) = session.run(None, {'image': model.prepare(image).image})
    assert np.allclose(outputs['maps'], expected, rtol=0, atol=1e-5)


def test_two_models_keep_their_own_outputs(tmp_path, files, image):
    """The names belong to the model, not to its class."""
    proto = models.raw()
    proto.graph.output[0].name = 'normed'
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField('shape')
    other = models.model(proto.graph, 'raw', **{'rebnn.outputs': '["normed"]'})
    second = load(models.write(other, tmp_path / 'other.onnx'), use_library=False)
    first = load(files['raw'], use_library=False)
    assert second(image)['normed'].shape == (1, 12, 20, 28)
    assert list(first(image)) == ['maps']
