from io import StringIO

import pytest
from rich.console import Console

from rebnn_mm.export.difference import Agreement
from rebnn_mm.export.engines.packed import print_export
from rebnn_mm.export.exporter import Export
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
