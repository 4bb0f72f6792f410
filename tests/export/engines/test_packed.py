from contextlib import nullcontext
from io import StringIO

import pytest
from rich.console import Console

from rebnn_mm.export.difference import Agreement, Difference
from rebnn_mm.export.engines.packed import print_export, scores_of, verdict
from rebnn_mm.export.exporter import Export, Quantized
from rebnn_mm.export.report import Report
from rebnn_mm.export.source import Source
from rebnn_mm.export.tasks import Task
from rebnn_mm.export.verify import Flips, Verification


@pytest.fixture
def printed():
    """What is printed about a detector with these agreements."""

    def run(detections, flips):
        verification = Verification(len(detections), 0.2, 0, detections, flips, 0.0, len(detections))
        result = Export(b'', Task('detection'), [], Report([], 0, 0, 'an image'), verification, None)
        out = StringIO()
        print_export(result, Source(None, 'a.py'), Console(file=out, width=200))
        return out.getvalue()

    return run


def test_other_detections_are_said_to_follow_near_ties(printed):
    text = printed([Agreement(2, 1, 0.75, 0.2), Agreement(0, 0, 1.0, 0.0)], {'conv': Flips(3, 1000)})
    assert 'Same detections on 1 of 2 images.' in text
    assert (
        'Where they are not, values next to zero changed their signs (near-ties) and the detections follow: '
        '2 missing, 1 new, smallest overlap of the others 0.7500.' in text
    )


def test_boxes_of_one_score_are_said_to_be(printed):
    text = printed([Agreement(1, 1, 1.0, 0.0)], {'conv': Flips(0, 1000)})
    assert 'Where they are not, boxes have equal scores, of which either may be kept: 1 missing, 1 new,' in text


def test_the_same_detections_need_no_excuse(printed):
    text = printed([Agreement(0, 0, 1.0, 0.0)] * 2, {'conv': Flips(0, 1000)})
    assert 'Same detections on 2 of 2 images.' in text and 'near-ties' not in text


def judged(task, verification, half=None):
    return verdict(Export(b'', Task(task), [], Report([], 0, 0, 'an image'), verification, half), 'given images')


def test_the_verdict_is_that_the_file_agrees():
    assert judged('classification', Verification(4, 1e-7, 4, [], {'conv': Flips(0, 9)}, 0.0, 4)) == (
        'The file agrees with PyTorch on 4 given images.'
    )
    # a sign that is rounded otherwise and changes no answer
    assert judged('classification', Verification(4, 0.1, 4, [], {'conv': Flips(1, 9)}, 0.0, 4)) == (
        'The file agrees with PyTorch on 4 given images.'
    )


def test_the_verdict_names_what_changes_answers_and_how_often():
    half = Difference(0.1, 2, 4, [])
    assert judged('classification', Verification(4, 0.1, 3, [], {'conv': Flips(1, 9)}, 0.0, 4), half) == (
        'Layer by layer the file agrees with PyTorch on 4 of 4 given images, but rounding changes the best class of 1 '
        'of 4, --half changes the best class of 2 of 4. What that costs only a score says: rebnn test-packed.'
    )
    boxes = [Agreement(0, 1, 1.0, 0.0), Agreement(0, 0, 1.0, 0.05)]
    found = Verification(2, 0.1, 0, boxes, {'conv': Flips(1, 9)}, 0.0, 2, 3)
    words = 'rounding changes detections in 2 of 2, --half makes boxes come or go in 1 of 2.'
    assert words in judged('detection', found, Difference(0.1, 0, 2, boxes))


def test_the_verdict_says_when_no_box_was_there_to_compare():
    nothing = Verification(2, 0.0, 0, [Agreement(0, 0, 1.0, 0.0)] * 2, {'conv': Flips(0, 9)}, 0.0, 2)
    assert judged('detection', nothing) == (
        'The file agrees with PyTorch on 2 given images. None has a detection, so no box was compared: compare on '
        'images with objects.'
    )
    assert 'no box' not in judged('detection', nothing._replace(boxes=1))


@pytest.mark.parametrize(('with_int8', 'refused'), [(0.5, False), (0.2, True), (float('nan'), True)])
def test_a_score_that_falls_to_less_than_half_is_refused(with_int8, refused):
    int8 = Quantized([], 8, Difference(0.1, 2, 4, []), b'before')
    scores = {b'before': {'mAP': 0.6, 'mAP_s': -1.0}, b'after': {'mAP': with_int8, 'mAP_s': -1.0}}
    source = Source(None, score=scores.__getitem__)
    context = (
        pytest.raises(ValueError, match='useless: mAP is .* with it and 0.6 without') if refused else nullcontext()
    )
    with context:
        assert scores_of(int8, b'after', source, Console(file=StringIO())) == tuple(scores.values())
