"""Photographs labelled by detectors: a YOLOX of three classes whose scores are the mean colours, and the zoo's."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from mmengine.config import Config
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

pytest.importorskip('mmdet')

from rebnn_mm.cli import new_config
from rebnn_mm.cli.label_images import label_images
from rebnn_mm.deploy import load
from rebnn_mm.deploy.zoo import zoo_path
from tests.refusal import refusal

SIDE = 64
POINTS = 64 + 16 + 4
COLOURS = ['blue', 'green', 'red']


def save(path: Path, rows: np.ndarray, points: int = POINTS) -> Path:
    """A detector with these positions, sizes and first scores; its class scores are the means of the three planes."""
    image = helper.make_tensor_value_info('images', TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    output = helper.make_tensor_value_info('output', TensorProto.FLOAT, [1, points, 8])
    tensors = [
        numpy_helper.from_array(array, name)
        for name, array in (
            ('rows', rows[None].astype(np.float32)),
            ('white', np.float32(255)),
            ('shape', np.array([1, points, 3])),
            ('sides', np.array([2, 3])),
            ('one', np.array([1, 1, 3])),
        )
    ]
    nodes = [
        helper.make_node('ReduceMean', ['images', 'sides'], ['mean'], keepdims=0),
        helper.make_node('Div', ['mean', 'white'], ['share']),
        helper.make_node('Reshape', ['share', 'one'], ['row']),
        helper.make_node('Expand', ['row', 'shape'], ['scores']),
        helper.make_node('Concat', ['rows', 'scores'], ['output'], axis=2),
    ]
    graph = helper.make_graph(nodes, 'yolox', [image], [output], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9), path)
    return path


@pytest.fixture
def yolox(tmp_path) -> Path:
    """It sees one object, at two neighbouring points of stride 16."""
    rows = np.zeros((POINTS, 5))
    rows[64 + 4 + 2] = 0.5, 0.25, np.log(2), 0, 1  # second row, third column: 24 to 56, 12 to 28
    rows[64 + 4 + 1] = 1.5, 0.25, np.log(2), 0, 0.9
    return save(tmp_path / 'yolox.onnx', rows)


@pytest.fixture
def photos(tmp_path) -> Path:
    """Two blue images, the second twice as large as the input and half as high as wide, and a black one."""
    folder = tmp_path / 'photos'
    (folder / 'more').mkdir(parents=True)
    Image.new('RGB', (64, 64), (0, 0, 255)).save(folder / 'a.png')
    Image.new('RGB', (128, 64), (0, 0, 255)).save(folder / 'more' / 'b.png')
    Image.new('RGB', (64, 64)).save(folder / 'c.png')
    return folder


def test_the_raw_output_of_yolox_becomes_labels(yolox, photos):
    said = label_images(photos, str(yolox), COLOURS)
    assert said.endswith(f'least 0.4, 3 images, in {photos / "labelled.json"}: blue 2, green 0, red 0')
    content = json.loads((photos / 'labelled.json').read_text())
    files = {image['id']: image['file_name'] for image in content['images']}
    boxes = {files[entry['image_id']]: entry['bbox'] for entry in content['annotations']}
    assert set(files.values()) == {'a.png', 'more/b.png', 'c.png'} and len(content['annotations']) == 2
    assert boxes['a.png'] == pytest.approx([24, 12, 32, 16]) and boxes['more/b.png'] == pytest.approx([48, 24, 64, 32])
    assert [category['name'] for category in content['categories']] == COLOURS


def test_a_config_is_written_from_the_labels(yolox, photos, tmp_path, monkeypatch, capsys):
    words = ['--data', photos, '--out', tmp_path / 'mine.py', '--label-with', yolox, '--classes', *COLOURS]
    for _ in range(2):  # labels of its own are written over
        monkeypatch.setattr(sys, 'argv', ['rebnn new-config', *map(str, words)])
        new_config.main()
        assert 'blue 2, green 0, red 0' in capsys.readouterr().out
        assert Config.fromfile(tmp_path / 'mine.py').metainfo.classes == ('blue',)


@pytest.mark.parametrize('labels', ['labelled.json', 'a.xml'])
def test_labels_that_are_there_are_not_replaced(labels, yolox, photos):
    label_images(photos, str(yolox), COLOURS)
    theirs = (photos / 'labelled.json').read_text().replace('"blue"', '"navy"')  # corrected by hand
    (photos / 'labelled.json').unlink()
    box = '<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>'
    voc = f'<annotation><filename>{{}}</filename><object><name>cat</name>{box}</object></annotation>'
    if labels == 'labelled.json':
        (photos / labels).write_text(theirs)
    else:
        for name in ('a', 'c'):
            (photos / f'{name}.xml').write_text(voc.format(f'{name}.png'))
    before = (photos / labels).read_text()
    message = refusal(label_images, photos, str(yolox), COLOURS)
    assert message == f'{photos} has labels, which --label-with would replace. Leave it out, or move them.'
    assert (photos / labels).read_text() == before


def test_a_packed_detector_labels_the_chosen_classes(tmp_path):
    image = zoo_path('zoo:BloodImage_00021.jpg')
    shutil.copy(image, tmp_path)
    said = label_images(tmp_path, 'zoo:blood-cells-tiny', ['WBC', 'RBC'])
    content = json.loads((tmp_path / 'labelled.json').read_text())
    found = load('zoo:blood-cells-tiny')(image).at_least(0.4)
    counts = {name: found.names.count(name) for name in ('WBC', 'RBC')}
    assert said.endswith(f'WBC {counts["WBC"]}, RBC {counts["RBC"]}') and min(counts.values()) > 0
    assert len(content['annotations']) == sum(counts.values()) < len(found)


def test_what_cannot_label_is_one_sentence(yolox, photos, tmp_path):
    unknown = helper.make_graph([helper.make_node('Unknown', [], ['y'])], 'g', [], [])
    onnx.save(helper.make_model(unknown, opset_imports=[helper.make_opsetid('', 18)]), tmp_path / 'unknown.onnx')
    other = save(tmp_path / 'other.onnx', np.zeros((50, 5)), points=50)
    image = helper.make_tensor_value_info('x', TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    flat = helper.make_tensor_value_info('y', TensorProto.FLOAT, [1, POINTS])
    nodes = [helper.make_node('Identity', ['rows'], ['y'])]
    rows = numpy_helper.from_array(np.zeros((1, POINTS), np.float32), 'rows')
    graph = helper.make_graph(nodes, 'flat', [image], [flat], [rows])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9), tmp_path / 'flat.onnx'
    )
    decoded = np.zeros((POINTS, 5))
    decoded[:, 2:4] = 120
    decoded = save(tmp_path / 'decoded.onnx', decoded)
    for teacher, classes, words in (
        (other, COLOURS, 'is neither a detector that rebnn export wrote nor the raw output of YOLOX: inputs [[1, 3, '),
        (tmp_path / 'unknown.onnx', COLOURS, 'unknown.onnx: ONNX Runtime does not accept it ('),
        (tmp_path / 'flat.onnx', COLOURS, 'outputs [[1, 84]], not [1, 3, S, S] and [1, 84, 5 + classes] in float32.'),
        (decoded, COLOURS, 'decoded.onnx is no raw output of YOLOX: sizes are no logarithms, or scores not 0 to 1.'),
        (yolox, ['blue'], f'--classes: {yolox} has 3 classes without names. Name all of them, in its order.'),
        ('zoo:cifar10-resnet20', (), '--label-with: zoo:cifar10-resnet20 finds no boxes: it is a Classifier.'),
        ('zoo:blood-cells', ['WBCs'], "zoo:blood-cells does not know the class 'WBCs'. Did you mean 'WBC'?"),
        ('gone.onnx', (), '--label-with: there is no file gone.onnx.'),
    ):
        assert words in refusal(label_images, photos, str(teacher), classes)
        assert not (photos / 'labelled.json').exists()
    (tmp_path / 'empty').mkdir()
    assert 'there are no images in' in refusal(label_images, tmp_path / 'empty', str(yolox), COLOURS)


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--classes', 'cat'], '--classes goes with --label-with.'),
        (['--label-with', 'x.onnx', '--val', 'val.json'], 'leave out --train, --val and --test.'),
    ],
)
def test_flags_that_do_not_go_together(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['rebnn new-config', '--data', 'photos', *words])
    with pytest.raises(SystemExit):
        new_config.main()
    assert message in capsys.readouterr().err
