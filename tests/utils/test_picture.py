import numpy as np
import pytest
from matplotlib.figure import Figure

from rebnn_mm.benchmark.choice import Point
from rebnn_mm.benchmark.choice import draw as draw_choice
from rebnn_mm.cli.confusion import draw as draw_confusion
from rebnn_mm.cli.curves import draw as draw_curves
from rebnn_mm.cli.oscillation import run_labels
from rebnn_mm.utils.picture import check_picture, save_picture
from tests.refusal import refusal


class Interrupted(Figure):
    def savefig(self, fname, **kwargs):
        fname.write_text('half a pict')
        raise KeyboardInterrupt


def test_an_interrupted_call_leaves_the_old_picture_and_nothing_else(tmp_path):
    path = tmp_path / 'curve.svg'
    save_picture(Figure(figsize=(2, 1)), path, dpi=50)
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        save_picture(Interrupted(), path, dpi=50)
    assert path.read_bytes() == before and b'</svg>' in before
    assert [file.name for file in tmp_path.iterdir()] == ['curve.svg']


@pytest.mark.parametrize('name', ['a.png', 'a.JPG', 'b/a.jpeg', 'a.svg', 'a.pdf'])
def test_names_it_takes_are_names_it_writes(name, tmp_path):
    assert refusal(check_picture, name) is None
    save_picture(Figure(figsize=(1, 1)), tmp_path / name, dpi=20)
    assert (tmp_path / name).stat().st_size > 100


@pytest.mark.parametrize('name', ['a', 'a.txt', 'png', '.png'])
def test_other_names_are_refused(name):
    assert (
        refusal(check_picture, name) == f'cannot write a picture to {name}. End the name in .png, .jpg, .svg or .pdf.'
    )


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / 'file').touch()
    assert f'cannot write to {tmp_path}/file/a.png' in refusal(check_picture, tmp_path / 'file' / 'a.png')


def test_names_with_dollars_are_no_formulas(tmp_path, monkeypatch):
    """Classes, labels, folders; matplotlib itself takes the first for one, and stops at the second."""
    names = ('5$ or 10$', r'$\frac{$')
    figure = draw_confusion(np.ones((3, 3), int), names, '')
    save_picture(figure, tmp_path / 'confusion.png', 50)
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert run_labels([tmp_path] * 2, names) == shown[:2] == [r'5\$ or 10\$', r'\$\frac{\$']
    draw_curves([(1, dict(loss=1.0)), (2, dict(loss=0.5))], names[1], tmp_path / 'curves.png')
    draw_choice([Point(name, 50.0, 1.0, 1.0) for name in names], 'AP', tmp_path / 'choice.png')
