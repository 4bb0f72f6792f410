import pytest
from matplotlib.figure import Figure

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
