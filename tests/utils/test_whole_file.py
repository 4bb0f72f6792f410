"""Files that are whole or not there."""

from pathlib import Path

import pytest

from rebnn_mm.utils.whole_file import whole_file


def half_written(path: Path) -> None:
    path.write_text('half')
    raise TypeError


def test_what_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / 'report.json'
    path.write_text('before')
    with pytest.raises(TypeError), whole_file(path) as part:
        half_written(part)
    assert path.read_text() == 'before'
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made_and_the_ending_stays(tmp_path: Path) -> None:
    with whole_file(tmp_path / 'new/folder/picture.png') as part:
        assert part.suffix == '.png'
        part.write_bytes(b'1')
        assert not (tmp_path / 'new/folder/picture.png').exists()
    assert [path.name for path in (tmp_path / 'new/folder').iterdir()] == ['picture.png']
