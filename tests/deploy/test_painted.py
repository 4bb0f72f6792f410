"""Painted pictures keep the names of their images, or become a video."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from rebnn_mm.deploy import ImageError
from rebnn_mm.deploy.painted import open_output
from rebnn_mm.deploy.run import main

cv2 = pytest.importorskip('cv2')


@pytest.fixture
def clip(tmp_path):
    """Four frames of red, ten a second."""
    path = tmp_path / 'in' / 'clip.avi'
    path.parent.mkdir()
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*'MJPG'), 10, (64, 48))
    for shade in (20, 90, 160, 230):
        writer.write(np.full((48, 64, 3), (0, 0, shade), np.uint8))
    writer.release()
    return path


def frames(path):
    """Rate and frames of a video, RGB."""
    capture, found = cv2.VideoCapture(str(path)), []
    while (read := capture.read())[0]:
        found.append(read[1][..., ::-1])
    return capture.get(cv2.CAP_PROP_FPS), found


@pytest.mark.parametrize('ending', ['.mp4', '.avi', '.mkv', '.mov'])
def test_a_video_becomes_a_painted_video(files, clip, tmp_path, capsys, ending):
    out = tmp_path / 'new' / f'painted{ending}'
    main([str(files['detector']), str(clip), '--out', str(out), '--json', '--no-library', '--score-thr', '0'])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row['image'] for row in rows] == [f'{clip}#{number}' for number in (1, 2, 3, 4)]
    rate, painted = frames(out)
    assert rate == 10 and [one.shape for one in painted] == [(48, 64, 3)] * 4
    reds = [np.median(one[..., 0]) for one in frames(clip)[1]]
    for one, row, red in zip(painted, rows, reds, strict=True):
        assert len(row['result']) == 5
        changed = np.abs(one.astype(int) - [red, 0, 0]).max(axis=2) > 60
        assert 0.05 < changed.mean() < 1
    assert [file.name for file in out.parent.iterdir()] == [out.name]


def test_a_folder_keeps_names_and_formats(files, tmp_path, capsys, photo):
    for name in ('a/one.jpg', 'a/two.PNG', 'b/one.jpg'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.open(photo).resize((64, 48)).save(tmp_path / name)
    shutil.copy(tmp_path / 'a/two.PNG', tmp_path / 'three.png#1')
    sources = [str(tmp_path / name) for name in ('a', 'b/one.jpg', 'three.png#1')]
    main([str(files['detector']), *sources, '--out', str(tmp_path / 'deep' / 'out'), '--no-library'])
    found = {path.name: Image.open(path).format for path in (tmp_path / 'deep' / 'out').iterdir()}
    assert found == {'one.jpg': 'JPEG', 'two.PNG': 'PNG', 'one_2.jpg': 'JPEG', 'three_000001.png': 'PNG'}


def test_frames_get_the_name_of_their_video_or_camera(tmp_path):
    picture = Image.new('RGB', (8, 6))
    with open_output(tmp_path / 'out', ['0']) as add:
        for name in ('street.mp4#12', 'camera:0#3', 'rtsp://door:554/live.sdp#7', '0#1'):
            add(name, picture)
    assert sorted(path.name for path in (tmp_path / 'out').iterdir()) == [
        '0_000001.png',
        'camera_0_000003.png',
        'live_000007.png',
        'street_000012.png',
    ]


def test_nothing_that_is_read_is_overwritten(tmp_path, clip):
    Image.new('RGB', (8, 6)).save(tmp_path / 'a.png')
    for out, source, words in (
        (tmp_path, tmp_path, 'holds inputs'),
        (tmp_path, tmp_path / 'a.png', 'holds inputs'),
        (clip, clip, 'would overwrite an input'),
        (tmp_path / 'a.png', clip, 'is a file; several images go into a folder, or a video'),
    ):
        with pytest.raises(ImageError, match=words):
            open_output(out, [str(source)])
    with open_output(clip.parent, [str(clip)]) as add:
        add(f'{clip}#1', Image.new('RGB', (8, 6)))
    assert {path.name for path in clip.parent.iterdir()} == {'clip.avi', 'clip_000001.png'}


def paint(out, *sizes, stop=None):
    with open_output(out, ['0']) as add:
        for size in sizes:
            add(f'{size[0]} wide', Image.new('RGB', size, 'red'))
        if stop is not None:
            raise stop


def test_frames_of_several_sizes(tmp_path):
    words = 'painted.mp4 has frames of 64 x 48, and 32 wide is 32 x 48; give a folder in place of a video'
    with pytest.raises(ImageError, match=words):
        paint(tmp_path / 'painted.mp4', (64, 48), (32, 48))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('stop', [KeyboardInterrupt, GeneratorExit])
def test_who_stops_a_camera_keeps_what_was_painted(tmp_path, stop):
    with pytest.raises(stop):
        paint(tmp_path / 'painted.mp4', *[(64, 48)] * 3, stop=stop)
    rate, painted = frames(tmp_path / 'painted.mp4')
    assert rate == 25 and len(painted) == 3


def test_a_video_without_frames(tmp_path):
    with pytest.raises(ImageError, match='painted.mp4: there is no frame to write'):
        paint(tmp_path / 'painted.mp4')
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('ending', ['.mp4', '.avi', '.mkv', '.mov'])
def test_a_video_on_a_full_disk_is_no_video(tmp_path, ending):
    """OpenCV only logs it."""
    resource = pytest.importorskip('resource')
    out, before = tmp_path / f'painted{ending}', resource.getrlimit(resource.RLIMIT_FSIZE)
    out.write_bytes(b'the one of yesterday')
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(ImageError, match=rf'painted{ending} cannot be written \(.*File too large'):
            paint(out, *[(640, 480)] * 9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b'the one of yesterday']
