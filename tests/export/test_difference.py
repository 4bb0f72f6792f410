"""The comparison of detections: what it must find."""

import numpy as np
import pytest

from rebnn_mm.export.difference import Agreement, Difference, agreement, match_except_ties
from rebnn_mm.export.tasks import Task

BOXES = np.array([[0, 0, 100, 100], [50, 50, 150, 150], [50, 50, 150, 150.0], [10, 10, 10, 90]])
SCORES = np.array([0.9, 0.8, 0.8, 0.7])
LABELS = np.array([0, 0, 1, 1])


def changed(boxes=None, scores=None, labels=None):
    return tuple(
        old if new is None else np.array(new)
        for old, new in zip((BOXES, SCORES, LABELS), (boxes, scores, labels), strict=True)
    )


def test_the_same_in_another_order_is_the_same():
    order = [2, 1, 0, 3]
    result = agreement(changed(), changed(BOXES[order], SCORES[order], LABELS[order]))
    assert result.same
    assert result == (0, 0, 1.0, 0.0)


@pytest.mark.parametrize(
    'other',
    [
        changed(scores=[0.9, 0.8, 0.8, 0.7002]),
        changed(labels=[0, 1, 1, 1]),
        changed(boxes=BOXES + np.array([[0, 0, 0.2, 0]] + [[0] * 4] * 3)),
        changed(boxes=BOXES[:3], scores=SCORES[:3], labels=LABELS[:3]),
        changed(np.append(BOXES, BOXES[:1], 0), np.append(SCORES, 0.9), np.append(LABELS, 0)),
    ],
    ids=['score', 'label', 'box', 'one missing', 'one too many'],
)
def test_a_difference_is_found_from_either_side(other):
    assert not agreement(changed(), other).same
    assert not agreement(other, changed()).same


def test_numbers_of_a_difference():
    result = agreement(changed(), changed(boxes=BOXES * 1.0 + np.array([[0, 0, 25, 0]] + [[0] * 4] * 3)))
    assert result == (0, 0, pytest.approx(0.8), 0.0)
    result = agreement(changed(), changed(boxes=BOXES[1:], scores=SCORES[1:], labels=LABELS[1:]))
    assert result == (1, 0, 1.0, 0.0)


def test_nothing_agrees_with_nothing():
    nothing = np.zeros((0, 4)), np.zeros(0), np.zeros(0, int)
    assert agreement(nothing, nothing).same
    assert agreement(nothing, changed()) == (0, 4, 1.0, 0.0)
    assert agreement(changed(), nothing) == (4, 0, 1.0, 0.0)


def test_of_equal_scores_either_may_be_kept():
    other = BOXES.copy()
    other[2] += 300
    tied = [0.9, 0.8, 0.8, 0.8]
    assert not agreement(changed(scores=tied), changed(other, tied)).same
    assert match_except_ties(changed(scores=tied), changed(other, tied))
    assert not match_except_ties(changed(scores=tied), changed(other, [0.9, 0.8, 0.7, 0.8]))
    alone = [0.9, 0.85, 0.8, 0.7]
    assert not match_except_ties(changed(scores=alone), changed(other, alone))
    assert not match_except_ties(changed(scores=tied), changed(other[:3], tied[:3], LABELS[:3]))


@pytest.mark.parametrize('scores', [SCORES, np.ones(4)], ids=['scores', 'equal scores'])
def test_boxes_that_are_all_elsewhere_are_others(scores):
    assert match_except_ties(changed(scores=scores), changed(scores=scores))
    assert not match_except_ties(changed(scores=scores), changed(BOXES + 500, scores))
    assert not match_except_ties(changed(scores=scores), changed(BOXES + [0, 0, 0.2, 0], scores))
    assert not match_except_ties(changed(scores=scores), changed(BOXES[:0], scores[:0], LABELS[:0]))
    alone = scores[:1], LABELS[:1]
    assert not match_except_ties((BOXES[:1], *alone), (BOXES[1:2], *alone))


def test_a_thin_box_is_itself_after_rounding():
    thin = np.array([[1000, 5, 1000.0003, 90]]), SCORES[:1], LABELS[:1]
    moved = thin[0] + 0.002, *thin[1:]
    assert agreement(thin, moved) == (0, 0, 1.0, 0.0)
    assert agreement(thin, (thin[0] + 0.02, *thin[1:])).missing == 1


@pytest.mark.parametrize(
    ('task', 'found', 'words'),
    [
        ('classification', Difference(0.9, 5, 10, []), ''),
        ('classification', Difference(0.9, 4, 10, []), 'the best class is another one on 6 of 10 images'),
        ('detection', Difference(0.9, 0, 1, [Agreement(20, 20, 1.0, 0.0)], boxes=40), ''),
        (
            *('detection', Difference(0.9, 0, 1, [Agreement(40, 1, 1.0, 0.0)], boxes=40)),
            'of 40 boxes 40 are gone, and 1 are new',
        ),
        ('detection', Difference(0.9, 0, 1, [Agreement(1, 2, 1.0, 0.0)], boxes=1), ''),
        ('raw', Difference(9.0, 0, 1, [], relative=0.4), ''),
        ('raw', Difference(9.0, 0, 1, [], relative=0.6), 'outputs differ by 60% of the largest'),
    ],
)
def test_when_answers_are_spoilt(task, found, words):
    assert found.find_damage(Task(task)) == words
