"""The trained detector that comes with the project, on its photograph, beside the data set's own boxes."""

from pathlib import Path

import pytest

from rebnn_mm.deploy import load

FOLDER = Path(__file__).parents[2] / 'demo' / 'blood_cells'
# Those of the annotations that stand alone in the photograph.
TRUTH = [
    ('WBC', (329, 301, 494, 438)),
    ('Platelets', (374, 102, 422, 146)),
    ('Platelets', (482, 183, 530, 227)),
    ('RBC', (362, 140, 483, 255)),
    ('RBC', (520, 108, 625, 204)),
    ('RBC', (96, 334, 217, 449)),
    ('RBC', (208, 0, 318, 111)),
]


def overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / (sum((x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in (a, b)) - both)


@pytest.fixture(scope='module')
def found():
    return load(FOLDER / 'model.onnx')(FOLDER / 'BloodImage_00021.jpg').at_least(0.4)


@pytest.mark.parametrize(('name', 'box'), TRUTH)
def test_a_cell_is_found(found, name, box):
    cells = zip(found.names, found.boxes, strict=True)
    assert max(overlap(cell, box) for kind, cell in cells if kind == name) > 0.6


def test_the_file_is_as_small_as_its_page_says():
    assert (FOLDER / 'model.onnx').stat().st_size < 2.06e6
    assert '2.05 MB' in (FOLDER / 'README.md').read_text()
