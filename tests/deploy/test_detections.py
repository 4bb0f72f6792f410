"""Objects come out one by one, in part, and in the forms of others."""

import json

import numpy as np
import pytest
from PIL import Image

from rebnn_mm.deploy import Detection, Detections
from rebnn_mm.errors import RebnnError

from . import models

BOXES = np.array([[1, 2, 30, 40], [5, 5, 9, 7], [0, 0, 4, 4]], np.float32)


@pytest.fixture
def found():
    return Detections(BOXES, np.array([0.75, 0.5, 0.25], np.float32), np.array([2, 0, 2]), models.CLASSES)


def test_at_least(found):
    kept = found.at_least(0.5)
    assert kept.names == ['horse', 'cat'] and kept.boxes.tolist() == BOXES[:2].tolist()
    assert len(found.at_least(2)) == 0


def test_one_by_one(found):
    assert list(found) == [found[0], found[1], found[2]]
    assert found[-2] == found[np.int64(1)] == Detection('cat', 0, 0.5, (5.0, 5.0, 9.0, 7.0))
    with pytest.raises(IndexError):
        found[3]


@pytest.mark.parametrize(
    ('which', 'kept'),
    [
        (slice(1, None), [1, 2]),
        (slice(None, None, -1), [2, 1, 0]),
        (np.array([True, False, True]), [0, 2]),
        ([True, False, True], [0, 2]),
        ([2, 0], [2, 0]),
        (np.array([], np.int64), []),
        ([], []),
    ],
    ids=str,
)
def test_some(found, which, kept):
    some = found[which]
    assert isinstance(some, Detections) and some.classes == models.CLASSES
    assert some.boxes.tolist() == BOXES[kept].tolist() and list(some) == [found[i] for i in kept]


def test_as_dicts_and_rows(found):
    assert json.loads(json.dumps(found.to_dicts()))[1] == {
        'name': 'cat',
        'label': 0,
        'score': 0.5,
        'box': [5, 5, 9, 7],
    }
    rows = found.to_numpy()
    assert rows.dtype == np.float32 and rows[0].tolist() == [1, 2, 30, 40, 0.75, 2]
    assert found[:0].to_numpy().shape == (0, 6) and found[:0].to_dicts() == [] == list(found[:0])


def test_a_class_without_a_category_id_is_named(found):
    with pytest.raises(RebnnError, match='has none of the 1 category_ids; give one for each'):
        found.to_coco(5, category_ids=[11])


def test_cocos_results_score_as_the_annotations_they_are(found, tmp_path, capsys):
    """COCO's own reader takes them, and finds each box where it is annotated."""
    coco = pytest.importorskip('pycocotools.coco').COCO
    evaluation = pytest.importorskip('pycocotools.cocoeval').COCOeval
    ids = [11, 12, 13, 14]
    results = found.to_coco(5, category_ids=ids)
    truth = coco()
    annotations = [
        {**one, 'id': i + 1, 'area': one['bbox'][2] * one['bbox'][3], 'iscrowd': 0} for i, one in enumerate(results)
    ]
    truth.dataset = {
        'info': {},
        'images': [{'id': 5, 'width': 50, 'height': 50}],
        'categories': [{'id': number} for number in ids],
        'annotations': annotations,
    }
    truth.createIndex()
    (tmp_path / 'results.json').write_text(json.dumps(results))
    scored = evaluation(truth, truth.loadRes(str(tmp_path / 'results.json')), 'bbox')
    scored.evaluate()
    scored.accumulate()
    scored.summarize()
    assert scored.stats[0] == pytest.approx(1)


def test_supervision_takes_them(found):
    supervision = pytest.importorskip('supervision')
    theirs = found.to_supervision()
    assert isinstance(theirs, supervision.Detections) and len(theirs) == 3
    assert theirs.xyxy.tolist() == BOXES.tolist() and theirs.class_id.tolist() == [2, 0, 2]
    assert theirs[theirs.confidence > 0.4]['class_name'].tolist() == ['horse', 'cat']
    assert len(found[:0].to_supervision()) == 0


def test_they_draw_themselves(found, tmp_path):
    image = np.zeros((50, 60, 3), np.uint8)
    picture = found.draw(image)
    assert picture.size == (60, 50) and np.asarray(picture)[40, 2:30].any(axis=1).all() and not image.any()
    Image.fromarray(image).save(tmp_path / 'black.png')
    assert np.array_equal(np.asarray(found.draw(tmp_path / 'black.png')), np.asarray(picture))
    assert not np.asarray(found[:0].draw(image)).any()
