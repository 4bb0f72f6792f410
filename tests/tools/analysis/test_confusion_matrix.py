import importlib
import json
import pickle
import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[3]
TOOL = 'rebnn confusion'
CONFIG = """
default_scope = 'mmdet'
test_dataloader = dict(
    dataset=dict(
        type='CocoDataset',
        data_root={root!r},
        ann_file='objects.json',
        data_prefix=dict(img=''),
        metainfo=dict(classes=('cat', 'dog')),
        test_mode=True,
        pipeline=[],
    )
)
"""
CAT, DOG = [0, 0, 10, 10], [50, 50, 20, 20]


@pytest.fixture
def tool(monkeypatch):
    pytest.importorskip('mmcv._ext', reason='mmdet needs the compiled ops of mmcv')
    module = importlib.import_module('rebnn_mm.cli.confusion')
    monkeypatch.chdir(ROOT)
    return module


def prediction(*found):
    """Boxes as x, y, width, height with a label and a score."""
    boxes = torch.tensor([box for box, _, _ in found]).reshape(-1, 4).float()
    boxes[:, 2:] += boxes[:, :2]
    labels, scores = torch.tensor([label for _, label, _ in found]), torch.tensor([score for *_, score in found])
    return dict(pred_instances=dict(bboxes=boxes, labels=labels.long(), scores=scores.float()))


@pytest.fixture
def files(tmp_path):
    """A config with two images, each with a cat and a dog, and predictions for them."""
    images = [dict(id=number, file_name=f'{number}.jpg', width=100, height=100) for number in (1, 2)]
    boxes = [
        dict(id=2 * image['id'] + label, image_id=image['id'], category_id=label, bbox=box, area=100, iscrowd=0)
        for image in images
        for label, box in ((1, CAT), (2, DOG))
    ]
    categories = [dict(id=1, name='cat'), dict(id=2, name='dog')]
    objects = dict(images=images, annotations=boxes, categories=categories)
    (tmp_path / 'objects.json').write_text(json.dumps(objects))
    (tmp_path / 'config.py').write_text(CONFIG.format(root=str(tmp_path)))
    first = prediction((CAT, 0, 0.9), (DOG, 0, 0.8), ([80, 80, 5, 5], 1, 0.7), (DOG, 1, 0.2))
    second = prediction((CAT, 0, 0.6))
    (tmp_path / 'found.pkl').write_bytes(pickle.dumps([first, second]))
    (tmp_path / 'gone_class.pkl').write_bytes(b'cnowhere\nGone\n.')
    return tmp_path


def run(tool, monkeypatch, folder, *flags, predictions='found.pkl'):
    args = [folder / 'config.py', folder / predictions, '--out', folder / 'matrix.png', *flags]
    monkeypatch.setattr(sys, 'argv', [TOOL, *map(str, args)])
    tool.main()


def rows(text):
    return [[cell.strip() for cell in line.strip('│').split('│')] for line in text.splitlines() if '│' in line]


def test_counts_what_can_be_counted_by_hand(tool, files, monkeypatch, capsys):
    run(tool, monkeypatch, files)
    assert rows(capsys.readouterr().out) == [
        ['cat', '2', '0', '0'],
        ['dog', '1', '0', '2'],  # the first is taken for a cat, and so is missed, too; the other is not found
        ['background', '0', '1', '0'],
    ]


def test_a_lower_score_lets_the_right_prediction_in(tool, files, monkeypatch, capsys):
    run(tool, monkeypatch, files, '--score-thr', '0.1')
    assert rows(capsys.readouterr().out)[1] == ['dog', '1', '1', '1']


def test_draws_it_large_enough_to_read(tool, files, monkeypatch):
    run(tool, monkeypatch, files)
    picture = cv2.imread(str(files / 'matrix.png'))
    assert picture.shape == (600, 780, 3) and picture.std() > 20


@pytest.mark.parametrize('number', [3, 8, 9, 31, 81])
def test_pictures_of_any_number_of_classes(tool, number):
    classes = tuple(f'class {index}' for index in range(number - 1))
    figure = tool.draw(np.eye(number, dtype=int), classes, 'title')
    axis = figure.axes[0]
    texts = [text.get_text() for text in axis.texts]
    assert len(texts) == (number**2 if number <= 30 else 0)
    assert len(axis.get_xticklabels()) == len(axis.get_yticklabels()) == number
    assert figure.get_figwidth() / number > 0.3  # inches: the names of neighbours do not overlap


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (dict(predictions='gone.pkl'), 'no predictions at .*gone.pkl. Write them with rebnn test'),
        (dict(predictions='config.py'), 'config.py holds no predictions'),
        (dict(predictions='gone_class.pkl'), 'gone_class.pkl holds no predictions'),
        (dict(flags=['--out', 'matrix.doc']), 'cannot write a picture to matrix.doc'),
        (dict(flags=['--cfg-options', 'test_dataloader.dataset.indices=1']), '2 predictions, the test set 1 images'),
        (dict(flags=['--cfg-options', 'test_dataloader.dataset.ann_file=no.json']), 'no annotations at .*no.json'),
    ],
)
def test_wrong_input_is_one_sentence(tool, files, monkeypatch, capsys, change, message):
    predictions = change.get('predictions', 'found.pkl')
    with pytest.raises(SystemExit):
        run(tool, monkeypatch, files, *change.get('flags', []), predictions=predictions)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert not (files / 'matrix.png').exists()


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (lambda found: dict(enumerate(found)), 'holds 0 predictions, the test set 2 images'),
        (lambda found: 5, 'holds 0 predictions, the test set 2 images'),
        (lambda found: [found[0], dict(pred_label=1)], 'holds 2 predictions, the test set 2 images of a detector'),
        (lambda found: [found[0], prediction((CAT, 2, 0.9))], 'has labels beyond the 2 classes of the test set'),
        (
            lambda found: [dict(one, img_path=f'data/{name}.jpg') for one, name in zip(found, 'ab', strict=True)],
            'has data/a.jpg in the place where the test set has .*1.jpg. Use the config',
        ),
    ],
)
def test_predictions_of_something_else(tool, files, monkeypatch, capsys, change, message):
    found = pickle.loads((files / 'found.pkl').read_bytes())
    (files / 'other.pkl').write_bytes(pickle.dumps(change(found)))
    with pytest.raises(SystemExit):
        run(tool, monkeypatch, files, predictions='other.pkl')
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)
    assert not (files / 'matrix.png').exists()


def test_images_may_lie_elsewhere(tool, files, monkeypatch, capsys):
    found = pickle.loads((files / 'found.pkl').read_bytes())
    (files / 'moved.pkl').write_bytes(
        pickle.dumps([dict(one, img_path=f'moved/{number}.jpg') for number, one in enumerate(found, start=1)])
    )
    run(tool, monkeypatch, files, predictions='moved.pkl')
    assert rows(capsys.readouterr().out)[0] == ['cat', '2', '0', '0']
