"""Boxes come back in pixels of the original image, the best first, and impossible ones are refused."""

import json

import numpy as np
import pytest

from rebnn_mm.deploy import ModelFileError, load

from . import models


def detector(tmp_path, proto=None, **preprocess):
    proto = proto or models.detector()
    entries = {entry.key: entry.value for entry in proto.metadata_props}
    entries['rebnn.preprocess'] = json.dumps({**models.PREPROCESS, **preprocess})
    models.helper.set_model_props(proto, entries)
    return load(models.write(proto, tmp_path / 'model.onnx'), use_library=False)


def corners():
    tensor = next(tensor for tensor in models.detector().graph.initializer if tensor.name == 'corners')
    return models.numpy_helper.to_array(tensor)


@pytest.mark.parametrize(
    'preprocess',
    [
        {},
        {'resize': {'mode': 'keep_ratio', 'size': [100, 60]}},
        {'resize': {'mode': 'exact', 'size': [64, 64]}, 'pad': {'divisor': 32, 'value': 0}},
        {'pad': {'divisor': 50, 'value': 1}},
    ],
)
def test_boxes_are_in_pixels_of_the_original(tmp_path, image, preprocess):
    """The graph places its boxes relative to the valid size, so the steps must not move them in the image."""
    found = detector(tmp_path, **preprocess)(image)
    expected = corners() * np.array([56, 40, 56, 40], np.float32)
    order = np.lexsort(expected.T)
    assert np.allclose(found.boxes[np.lexsort(found.boxes.T)], expected[order], rtol=0, atol=1e-4)
    assert found.boxes.dtype == np.float32
    assert (np.diff(found.scores) <= 0).all() and len(found) == 5
    assert found.names == [models.CLASSES[label] for label in found.labels]


def test_classes_without_names_are_numbered(tmp_path, image):
    proto = models.model(models.detector().graph, 'detection', **{'rebnn.classes': '[]'})
    found = load(models.write(proto, tmp_path / 'model.onnx'), use_library=False)(image)
    assert found.names == [str(label) for label in found.labels]


def test_nothing_found(tmp_path, image):
    found = detector(tmp_path, models.detector(boxes=0))(image)
    assert len(found) == 0 and found.boxes.shape == (0, 4) and found.names == []


def changed(name, value):
    proto = models.detector()
    for tensor in proto.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(models.numpy_helper.from_array(value, name))
    return proto


@pytest.mark.parametrize(
    ('name', 'value', 'words'),
    [
        ('labels_all', np.array([0, 1, 2, 3, 4]), 'it gives labels beyond its 4 classes'),
        ('labels_all', np.array([0, 1, -1, 3, 2]), 'it gives labels beyond its 4 classes'),
        ('corners', np.full((5, 4), np.nan, np.float32), 'it gives boxes or scores that are not finite'),
        ('mix', np.full((16, 5), np.nan, np.float32), 'it gives boxes or scores that are not finite'),
        ('labels_all', np.zeros((5, 1), np.int64), r'have the shapes \[\[5, 4\], \[5\], \[5, 1\]\], not'),
        ('labels_all', np.zeros(5, np.int32), 'must be of float32, float32 and int64'),
    ],
)
def test_impossible_outputs(tmp_path, image, name, value, words):
    proto = changed(name, value)
    labels = proto.graph.output[2].type.tensor_type
    labels.ClearField('shape')
    if name == 'labels_all':
        labels.elem_type = models.helper.np_dtype_to_tensor_dtype(value.dtype)
    with pytest.raises(ModelFileError, match=f'model.onnx: .*{words}'):
        detector(tmp_path, proto)(image)
