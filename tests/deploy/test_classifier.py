"""The labels of a classifier are the graph's scores in order."""

import json
import pickle
import re
from io import BytesIO

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from PIL import Image

from rebnn_mm.deploy import ImageError, Label, ModelFileError, load
from rebnn_mm.deploy.image import read_image, resize_bilinear
from rebnn_mm.deploy.run import main

from . import models


def test_labels_are_the_scores_in_order(files, image):
    model = load(files['classifier'], use_library=False)
    scores = model.scores(image)
    session = onnxruntime.InferenceSession(files['classifier'].read_bytes())
    (expected,) = session.run(['scores'], {'image': model.prepare(image).image})
    assert np.allclose(scores, expected[0], rtol=0, atol=1e-6)
    labels = model(image, top=3)
    assert [label.number for label in labels] == np.argsort(-scores).tolist()[:3]
    assert labels[0] == Label(int(scores.argmax()), models.CLASSES[scores.argmax()], float(scores.max()))
    assert len(model(image, top=99)) == 4 and model(image, top=0) == []


def test_a_path_and_its_pixels_give_the_same(files, photo):
    model = load(files['classifier'], use_library=False)
    assert model(photo) == model(str(photo)) == model(read_image(photo))
    assert model(photo) != model(read_image(photo)[..., ::-1])


def fixed(scores, names=models.CLASSES):
    """A classifier that always gives these scores."""
    values = helper.make_tensor('values', TensorProto.FLOAT, [1, len(scores)], scores)
    nodes = [
        helper.make_node('Constant', [], ['fixed'], value=values),
        helper.make_node('ReduceMax', ['image'], ['largest'], keepdims=0),
        helper.make_node('Mul', ['largest', 'zero'], ['nothing']),
        helper.make_node('Add', ['fixed', 'nothing'], ['scores']),
    ]
    zero = helper.make_tensor('zero', TensorProto.FLOAT, [], [0.0])
    inputs = [helper.make_tensor_value_info('image', TensorProto.FLOAT, ['N', 3, 'H', 'W'])]
    outputs = [helper.make_tensor_value_info('scores', TensorProto.FLOAT, ['N', len(scores)])]
    graph = helper.make_graph(nodes, 'fixed', inputs, outputs, [zero])
    return models.model(graph, 'classification')


def test_equal_scores_keep_the_order_of_classes(tmp_path, image):
    path = models.write(fixed([0.2, 0.3, 0.2, 0.3]), tmp_path / 'model.onnx')
    assert [label.number for label in load(path)(image)] == [1, 3, 0, 2]


def test_more_scores_than_classes(tmp_path, image):
    proto = fixed([0.2] * 5)
    path = models.write(proto, tmp_path / 'model.onnx')
    with pytest.raises(ModelFileError, match=r'model.onnx: it gives the scores of 5 classes, and names 4'):
        load(path)
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_param = 'classes'
    proto.graph.node[0].attribute[0].t.dims[:] = [1, 5]
    proto.graph.node[3].input[0] = 'free'  # a size that nothing says before it runs
    proto.graph.node.insert(1, helper.make_node('Compress', ['fixed', 'all'], ['kept'], axis=1))
    proto.graph.node[1].output[0] = 'free'
    proto.graph.initializer.append(helper.make_tensor('all', TensorProto.BOOL, [5], [True] * 5))
    with pytest.raises(ModelFileError, match=r'model.onnx: it gives float32 \[1, 5\] as the scores of 4 classes'):
        load(models.write(proto, path))(image)


@pytest.mark.parametrize('score', [float('nan'), float('inf')])
def test_scores_that_are_no_numbers(tmp_path, image, score):
    model = load(models.write(fixed([0.2, score, 0.2, 0.2]), tmp_path / 'model.onnx'))
    for call in (model, model.scores):
        with pytest.raises(ModelFileError, match='model.onnx: it gives scores that are not finite numbers'):
            call(image)


def no_size(tmp_path, *size):
    """A classifier as it was exported before files had a resize in place of the data set's size."""
    graph = models.classifier(size=size or ('H', 'W')).graph
    proto = models.model(graph, 'classification', **{'rebnn.preprocess': json.dumps(models.PREPROCESS)})
    return models.write(proto, tmp_path / 'old.onnx')


def test_a_file_that_says_no_size_takes_images_only_with_one(tmp_path, photo, image):
    path = no_size(tmp_path)
    model = load(path, use_library=False)
    for call in (model, model.scores, lambda one: list(model.stream([one], on_error='return'))):
        for given in (photo, image):
            with pytest.raises(ModelFileError, match=r'old.onnx: it does not say how large .* size=\(width, height\)'):
                call(given)
    sized = load(path, use_library=False, size=(24, 20))
    large = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), dtype=np.uint8)
    small = resize_bilinear(large, (24, 20))
    assert sized.prepare(large).image.shape == (1, 3, 20, 24)
    assert np.array_equal(sized.scores(large), sized.scores(small))
    assert pickle.loads(pickle.dumps(sized))(small) == sized(large)


def test_the_size_on_the_command_line(tmp_path, photo, capsys, monkeypatch):
    path = no_size(tmp_path)
    command = [str(path), str(photo), '--no-library', '--json']
    monkeypatch.setattr('sys.argv', ['/somewhere/bin/rebnn-run'])
    with pytest.raises(SystemExit):
        main(command)
    assert re.match('rebnn-run: .*in rebnn run --size WIDTH HEIGHT', capsys.readouterr().err)
    main([*command, '--size', '24', '20'])
    assert (
        json.loads(capsys.readouterr().out)['result'][0]['score']
        == load(path, use_library=False, size=(24, 20))(photo)[0].score
    )


def test_a_graph_of_one_size_gets_images_of_that_size(tmp_path, photo):
    model = load(no_size(tmp_path, 32, 24), use_library=False)
    assert model.prepare(photo).image.shape == (1, 3, 32, 24)
    assert np.array_equal(model.scores(photo), model.scores(resize_bilinear(read_image(photo), (24, 32))))


@pytest.mark.parametrize('size', [24, (24,), (0, 24), (24.0, 24), ('24', '24')])
def test_sizes_that_cannot_be(tmp_path, size):
    with pytest.raises(ValueError, match='size must be a width and a height in pixels'):
        load(no_size(tmp_path), size=size)


@pytest.mark.parametrize('kind', ['classifier', 'detector', 'raw'])
def test_a_size_is_only_for_a_file_that_says_none(files, kind):
    with pytest.raises(ModelFileError, match='onnx: size is for a classifier whose file gives its images none'):
        load(files[kind], use_library=False, size=(32, 32))


def test_an_image_of_another_size_than_the_graph_takes(tmp_path, image):
    path = models.write(models.classifier(size=(40, 40)), tmp_path / 'model.onnx')
    model = load(path, use_library=False)
    said = r'model.onnx: ONNX Runtime stops at an input of 56 x 40 \(.*image, index 3 Got: 56 Expected: 40\)'
    with pytest.raises(ModelFileError, match=said) as caught:
        model(image)
    assert '\n' not in str(caught.value)
    assert len(model(image[:, :40])) == 4


def test_classes_without_names_are_numbered(tmp_path, image):
    proto = models.model(fixed([0.1, 0.5, 0.4]).graph, 'classification', **{'rebnn.classes': '[]'})
    labels = load(models.write(proto, tmp_path / 'model.onnx'))(image)
    assert [label.name for label in labels] == ['1', '2', '0']


@pytest.mark.parametrize(
    'image',
    [
        None,
        3,
        [[1]],
        np.full((4, 4), 256),
        np.full((4, 4), -1),
        np.zeros((4, 4), complex),
        np.zeros((3, 4, 5), np.uint8),
    ],
)
def test_what_is_no_image(files, image):
    model = load(files['classifier'], use_library=False)
    with pytest.raises(ImageError, match=r'^an (image|array)( of \w+)? must '):
        model(image)


def test_the_same_photo_in_every_form(files, photo):
    model = load(files['classifier'], use_library=False)
    array = read_image(photo)
    pillow = Image.fromarray(array)
    png = BytesIO()
    pillow.convert('RGBA').save(png, 'png')
    forms = [str(photo), pillow, png.getvalue(), memoryview(png.getvalue()), array / 255, (array / 255).astype('f4')]
    forms += [array.astype(kind) for kind in (np.int16, np.int32, np.int64, np.uint32)]
    forms += [BytesIO(png.getvalue()), photo.open('rb')]
    forms += [array.astype(np.uint16) << 8, np.dstack([array, array[..., 0]])]
    assert [model(form) for form in forms] == [model(array)] * len(forms)


def test_grey_in_every_form(files, photo):
    model = load(files['classifier'], use_library=False)
    grey = np.asarray(Image.fromarray(read_image(photo)).convert('L'))
    expected = model(np.repeat(grey[..., None], 3, axis=2))
    assert expected != model(photo)
    for form in (grey, grey[..., None], Image.fromarray(grey), grey / 255, grey.astype(np.uint16) * 257):
        assert model(form) == expected
    mask = grey > 128
    assert model(mask) == model(mask.astype(np.uint8) * 255)


def test_bytes_that_are_no_image(files):
    model = load(files['classifier'], use_library=False)
    with pytest.raises(ImageError, match=r'^what was given as 5 bytes cannot be read as an image \('):
        model(b'bytes')
