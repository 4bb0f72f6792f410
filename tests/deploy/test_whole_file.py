"""Files that are whole or not there."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rebnn_mm.deploy.whole_file import is_input, whole_file


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


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / 'disk').mkdir()
    place, link = tmp_path / 'disk/report.json', tmp_path / 'latest.json'
    place.write_text('before')
    link.symlink_to(place)
    with whole_file(link) as part:
        part.write_text('after')
    assert link.is_symlink() and place.read_text() == 'after'
    assert [path.name for path in place.parent.iterdir()] == ['report.json']


def test_a_pipe_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / 'pipe.json'
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    with whole_file(pipe) as part:
        assert part.suffix == '.json'
        part.write_text('whole')
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(30)
    assert read == ['whole']


def test_a_device_stays_one() -> None:
    with whole_file('/dev/null') as part:
        part.write_text('whole')
    assert stat.S_ISCHR(os.stat('/dev/null').st_mode)


def test_threads_that_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / 'report.json'

    def write(number: int) -> None:
        with whole_file(path) as part:
            part.write_text(str(number) * 1000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
    assert len(set(path.read_text())) <= 3 and list(tmp_path.iterdir()) == [path]


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ('a' * 251 + '.npz')
    with whole_file(path) as part:
        part.write_text('whole')
    assert path.read_text() == 'whole'


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    path, new = tmp_path / 'secret.json', tmp_path / 'plain.json'
    path.touch(0o600)
    for target in (path, new):
        with whole_file(target) as part:
            part.write_text('whole')
    (tmp_path / 'usual').touch()
    assert path.stat().st_mode & 0o777 == 0o600
    assert new.stat().st_mode == (tmp_path / 'usual').stat().st_mode


def test_an_input_by_another_name(tmp_path: Path) -> None:
    path, link = tmp_path / 'photo.jpg', tmp_path / 'link.jpg'
    path.touch()
    link.symlink_to(path)
    assert is_input(link, [None, 'zoo:cells', path])
    assert not is_input(link, ['zoo:cells']) and not is_input(tmp_path / 'new.jpg', [path])
