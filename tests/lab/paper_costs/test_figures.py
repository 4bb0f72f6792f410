"""The 28 figures that the paper prints for size and operations."""

import pytest

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from lab.paper_costs.figures import FIGURES, count_networks

# Counting every network takes longer than all other tests of this folder.
pytestmark = pytest.mark.slow

# Computed independently, from lists of layers written by hand; row, quantity, value.
VALUES = [
    ('ResNet-18 32-32', 'size', 46.7580),
    ('ResNet-18 32-32', 'ops', 18.2140),
    ('ResNet-18 1-1', 'size', 4.1509),
    ('ResNet-18 1-1', 'ops', 1.6399),
    ('ResNet-34 32-32', 'size', 87.1907),
    ('ResNet-34 32-32', 'ops', 36.7422),
    ('ResNet-34 1-1', 'size', 5.4135),
    ('ResNet-34 1-1', 'ops', 1.9289),
    ('Faster R-CNN 32-32', 'size', 47.4808),
    ('Faster R-CNN 32-32', 'ops', 434.3904),
    ('Faster R-CNN 4-4', 'size', 6.7258),
    ('Faster R-CNN 4-4', 'ops', 55.8937),
    ('Faster R-CNN 1-1', 'size', 2.3918),
    ('Faster R-CNN 1-1', 'ops', 8.5816),
    ('SSD300 32-32', 'size', 105.1600),
    ('SSD300 32-32', 'ops', 31.4352),
    ('SSD300 4-4', 'size', 29.7946),
    ('SSD300 4-4', 'ops', 6.6726),
    ('SSD300 1-1', 'size', 21.8754),
    ('SSD300 1-1', 'ops', 2.1313),
    ('BERT-base 32-32-32', 'size', 417.6416),
    ('BERT-base 32-32-32', 'ops', 22.4982),
    ('BERT-base 2-8-8', 'size', 42.9814),
    ('BERT-base 2-8-8', 'ops', 6.0775),
    ('BERT-base 2-2-2', 'size', 27.9510),
    ('BERT-base 2-2-2', 'ops', 1.4061),
    ('BERT-base 1-1-1', 'size', 16.4771),
    ('BERT-base 1-1-1', 'ops', 0.3515),
]
# mmdet 3's extra layers have ReLU modules, which the list leaves out: 0.0002 G.
TOLERANCE = 2e-4


@pytest.mark.parametrize(
    ('figure', 'expected'), list(zip(FIGURES, VALUES, strict=True)), ids=[f'{f.row} {f.quantity}' for f in FIGURES]
)
def test_figure(figure, expected):
    row, quantity, value = expected
    assert (figure.row, figure.quantity) == (row, quantity)
    assert figure.value(count_networks()[figure.network]) == pytest.approx(value, abs=TOLERANCE)


def test_which_do_not_round_to_the_printed_digits():
    wrong = {
        (f.row, f.quantity, f.printed, f.round(f.value(count_networks()[f.network])))
        for f in FIGURES
        if not f.matches(f.value(count_networks()[f.network]))
    }
    assert wrong == {
        ('ResNet-18 1-1', 'ops', '1.63', '1.64'),
        ('Faster R-CNN 4-4', 'ops', '55.90', '55.89'),
        ('SSD300 4-4', 'size', '29.58', '29.79'),
        ('BERT-base 2-8-8', 'ops', '6.5', '6.1'),
        ('BERT-base 2-2-2', 'ops', '1.5', '1.4'),
    }


def test_every_figure_that_does_not_match_says_why():
    counted = count_networks()
    assert all(f.note for f in FIGURES if not f.matches(f.value(counted[f.network])))
