"""Many images: batches, streams, folders, videos."""

import json
import socket
import struct
import sys
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from rebnn_mm.deploy import ImageError, load
from rebnn_mm.deploy.run import main
from rebnn_mm.deploy.several import images_of, is_several


@pytest.fixture
def images() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((24, 32), (24, 32), (40, 20), (24, 32))]


@pytest.fixture
def video(tmp_path, images):
    path = str(tmp_path / 'clip.avi')
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*'MJPG'), 5, (32, 24))
    for shade in (20, 120, 220):
        writer.write(np.full((24, 32, 3), (0, 0, shade), np.uint8))
    writer.release()
    return path


def numbers(result):
    """A result as numbers; a batch may round the real sums otherwise."""
    if isinstance(result, list):
        return [label.number for label in result], [label.score for label in result]
    if isinstance(result, dict):
        return list(result), [float(value.sum()) for value in result.values()]
    return result.labels.tolist(), [*result.scores.tolist(), *result.boxes.ravel().tolist()]


@pytest.mark.parametrize('kind', ['classifier', 'detector', 'raw'])
def test_each_image_of_a_list_has_the_result_it_has_alone(files, images, kind):
    model = load(files[kind], use_library=False)
    alone = [numbers(model(image)) for image in images]
    assert model([]) == []
    streams = (model.stream(images), model.stream(iter(images), batch=3), model.stream(images, workers=3))
    for several in (model(images), *map(list, streams)):
        assert len(several) == len(images)
        for found, (names, values) in zip(map(numbers, several), alone, strict=True):
            assert found[0] == names and np.allclose(found[1], values, rtol=1e-5, atol=1e-5)


def test_equally_large_neighbours_go_through_the_network_together(files, images, monkeypatch):
    model = load(files['classifier'], use_library=False)
    batches = []
    run = model.run
    monkeypatch.setattr(model, 'run', lambda prepared: batches.append(len(prepared.image)) or run(prepared))
    model(images)
    assert batches == [2, 1, 1]


def test_options_of_the_call_go_to_every_image_of_a_stream(files, images):
    model = load(files['classifier'], use_library=False)
    assert [len(labels) for labels in model.stream(images, batch=2, top=3)] == [3] * 4


def test_a_stream_reads_ahead_but_not_everything(files, images):
    asked = []

    def endless():
        while True:
            asked.append(1)
            yield images[0]

    stream = load(files['classifier'], use_library=False).stream(endless(), batch=2)
    for _ in range(3):
        next(stream)
    stream.close()
    assert 3 <= len(asked) <= 12


def test_workers_run_at_the_same_time(files, images, monkeypatch):
    model = load(files['classifier'], use_library=False)
    both, run = threading.Barrier(2, timeout=60), model.run
    monkeypatch.setattr(model, 'run', lambda prepared: both.wait() >= 0 and run(prepared))
    assert len(list(model.stream(images, workers=2))) == 4


@pytest.mark.parametrize('wrong', [dict(batch=0), dict(workers=0)])
def test_a_stream_of_nothing_at_a_time(files, images, wrong):
    with pytest.raises(ValueError, match='batch and workers must be at least 1, not'):
        next(load(files['classifier'], use_library=False).stream(images, **wrong))


def test_a_stream_ends_at_the_image_that_is_none(files, images):
    stream = load(files['classifier'], use_library=False).stream([images[0], 'nowhere.jpg', images[1]])
    assert next(stream)
    with pytest.raises(ImageError, match=r'no image at nowhere\.jpg'):
        next(stream)


def test_files_of_a_folder_and_frames_of_a_video_in_their_order(tmp_path, video, images):
    for name, image in zip('ba', images, strict=False):
        Image.fromarray(image).save(tmp_path / f'{name}.png')
    (tmp_path / 'notes.txt').write_text('no image')
    found = list(images_of([str(tmp_path), video]))
    assert [name for name, _ in found] == [
        str(tmp_path / 'a.png'),
        str(tmp_path / 'b.png'),
        *(f'{video}#{i}' for i in (1, 2, 3)),
    ]
    assert np.array_equal(found[0][1], images[1])
    reds = [int(frame[..., 0].mean()) for _, frame in found[2:]]
    assert np.allclose(reds, (20, 120, 220), atol=6) and all(frame[..., 2].mean() < 6 for _, frame in found[2:])


def test_what_of_a_folder_is_passed_over(tmp_path, images):
    for name in ('holiday', 'x.png', '.cache'):
        (tmp_path / name).mkdir()
    with pytest.raises(ImageError, match=r'there is no image in the folder .*; 2 subfolders of .* not looked into$'):
        list(images_of([str(tmp_path)]))
    Image.fromarray(images[0]).save(tmp_path / 'b.png')
    (tmp_path / '._b.png').write_bytes(b'what macOS adds')
    (tmp_path / 'x.png').rmdir()
    with pytest.warns(UserWarning, match=f'^1 subfolder of {tmp_path} not looked into; give each that holds images'):
        found = list(images_of([str(tmp_path)]))
    assert [name for name, _ in found] == [str(tmp_path / 'b.png')]


def test_a_folder_that_may_not_be_read(tmp_path, monkeypatch):
    """To root, as whom tests may run, no folder is closed."""

    def closed(folder):
        raise PermissionError(13, 'Permission denied', str(folder))

    monkeypatch.setattr(Path, 'iterdir', closed)
    with pytest.raises(ImageError, match=r'the folder .* cannot be read \(.*Permission denied'):
        list(images_of([str(tmp_path)]))


def test_what_is_no_video(tmp_path, monkeypatch):
    path = tmp_path / 'clip.mp4'
    path.write_bytes(b'no video')
    with pytest.raises(ImageError, match='cannot be opened as a video'):
        list(images_of([str(path)]))
    monkeypatch.setitem(sys.modules, 'cv2', None)
    with pytest.raises(ImageError, match='needs OpenCV: pip install opencv-python-headless'):
        list(images_of([str(path)]))


def test_the_command_prints_each_image_of_a_video_and_paints_it(files, video, tmp_path, capsys):
    options = ['--json', '--no-library', '--batch', '2', '--threads', '2']
    main([str(files['detector']), video, '--out', str(tmp_path / 'new'), *options])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line['image'] for line in lines] == [f'{video}#{i}' for i in (1, 2, 3)]
    painted = sorted((tmp_path / 'new').iterdir())
    assert [path.name for path in painted] == [f'clip_00000{i}.png' for i in (1, 2, 3)]
    assert Image.open(painted[0]).size == (32, 24)
    main([str(files['classifier']), video, str(painted[0]), '--no-library', '--top', '1'])
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f'{video}#1' and out[1].split() == ['class', 'score'] and out[-1].startswith('4 images, ')


def serve(server, stream):
    """What RTSP needs to hand out a transport stream (RFC 2326, 3551 and 2250), to one player over its connection."""
    player, _ = server.accept()
    lines = player.makefile('r')
    while head := list(iter(lambda: lines.readline().strip(), '')):
        method, count = head[0].split()[0], next(line for line in head if line.lower().startswith('cseq'))
        body, more = '', ''
        if method == 'DESCRIBE':
            body = 'v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=t\r\nt=0 0\r\nm=video 0 RTP/AVP 33\r\na=control:0\r\n'
            more = f'Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n'
        elif method == 'SETUP':
            more = 'Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n'
        player.sendall(f'RTSP/1.0 200 OK\r\n{count}\r\n{more}\r\n{body}'.encode())
        if method == 'PLAY':
            for number, start in enumerate(range(0, len(stream), 7 * 188)):
                packet = struct.pack('>BBHII', 0x80, 33, number, number * 3600, 1) + stream[start : start + 7 * 188]
                player.sendall(struct.pack('>cBH', b'$', 0, len(packet)) + packet)
            player.shutdown(socket.SHUT_WR)
            return


def test_frames_of_an_address(files, tmp_path, capfd):
    writer = cv2.VideoWriter(str(tmp_path / 'a.ts'), cv2.VideoWriter_fourcc(*'mp4v'), 25, (64, 48))
    for _ in range(25):
        writer.write(np.full((48, 64, 3), (0, 0, 200), np.uint8))
    writer.release()
    with socket.create_server(('127.0.0.1', 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=serve, args=(server, (tmp_path / 'a.ts').read_bytes()), daemon=True).start()
        found = list(images_of([f'rtsp://me:secret@127.0.0.1:{port}/live']))
    assert len(found) >= 20 and found[0][0] == f'rtsp://127.0.0.1:{port}/live#1'
    assert all(frame.shape == (48, 64, 3) and abs(np.median(frame[..., 0]) - 200) < 8 for _, frame in found)


def test_a_number_is_a_camera_unless_a_file_has_that_name(tmp_path, monkeypatch, images):
    monkeypatch.chdir(tmp_path)
    assert is_several('0') and is_several('rtsp://door/live') and not is_several('0.png')
    with pytest.raises(ImageError, match='^99 cannot be opened as a video'):
        list(images_of(['99']))
    Image.fromarray(images[0]).save(tmp_path / '0', format='png')
    assert not is_several('0') and np.array_equal(next(images_of(['0']))[1], images[0])


def test_a_broken_image_costs_nothing_but_itself(files, images):
    model = load(files['classifier'], use_library=False)
    good = model(images)
    mixed = [*images[:2], 'nowhere.jpg', *images[2:]]
    for batch in (1, 5):
        found = list(model.stream(mixed, batch=batch, on_error='return'))
        assert isinstance(found[2], ImageError) and 'no image at nowhere.jpg' in str(found[2])
        assert [numbers(one)[0] for one in (*found[:2], *found[3:])] == [numbers(one)[0] for one in good]
        stream = model.stream(mixed, batch=batch)
        assert [numbers(next(stream))[0] for _ in range(2)] == [numbers(one)[0] for one in good[:2]]
        with pytest.raises(ImageError, match='no image at nowhere'):
            next(stream)


@pytest.mark.parametrize('on_error', ['raise', 'return'])
def test_what_the_images_raise_comes_after_those_before_it(files, images, on_error):
    def some():
        yield from images[:2]
        raise ImageError('the camera is gone')

    stream = load(files['classifier'], use_library=False).stream(some(), batch=4, on_error=on_error)
    assert next(stream) and next(stream)
    with pytest.raises(ImageError, match='^the camera is gone$'):
        next(stream)


def test_another_way_with_errors(files, images):
    with pytest.raises(ValueError, match="on_error must be 'raise' or 'return', not 'skip'"):
        next(load(files['classifier'], use_library=False).stream(images, on_error='skip'))


def damage(video, *frames):
    """Fill frames of a video of JPEGs with zeros, as bad sectors do."""
    data = bytearray(Path(video).read_bytes())
    starts = [place for place in range(len(data)) if data[place : place + 3] == b'\xff\xd8\xff']
    for frame in frames:
        data[starts[frame] : starts[frame] + 200] = bytes(200)
    Path(video).write_bytes(data)


@pytest.mark.parametrize('broken', [0, 1, 2])
def test_a_broken_frame_costs_nothing_but_itself(video, broken):
    damage(video, broken)
    found = list(images_of([video]))
    assert [name for name, _ in found] == [f'{video}#{number}' for number in (1, 2, 3)]
    assert [isinstance(frame, ImageError) for _, frame in found] == [number == broken for number in range(3)]
    assert str(found[broken][1]) == f'frame {broken + 1} of {video} cannot be read'


@pytest.mark.parametrize('skip', [False, True])
def test_broken_images_of_a_folder(files, tmp_path, capsys, images, skip):
    for name in 'acd':
        Image.fromarray(images[0]).save(tmp_path / f'{name}.png')
    whole = (tmp_path / 'a.png').read_bytes()
    (tmp_path / 'b.png').write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SystemExit):
        main([str(files['classifier']), str(tmp_path), '--no-library', '--batch', '3', *['--skip-broken'] * skip])
    out, err = capsys.readouterr()
    lines = out.splitlines()
    names = [Path(line).name for line in lines if line.endswith('.png')]
    if skip:
        assert names == ['a.png', 'c.png', 'd.png'] and lines[-1].startswith('3 images, ')
        assert err.endswith(f': 1 of 4 images were skipped: {tmp_path}/b.png\n')
    else:
        assert names == ['a.png'] and 'b.png cannot be read as an image' in err
        assert err.endswith('; --skip-broken continues with the next image\n')


def test_files_that_are_passed_over_are_named(tmp_path, images):
    Image.fromarray(images[0]).save(tmp_path / 'a.png')
    for name in ('b.gif', 'c.avif', 'd.jp2', 'e'):
        (tmp_path / name).touch()
    with pytest.warns(UserWarning, match='because of their endings: b.gif, c.avif, d.jp2, e; to read one'):
        assert len(list(images_of([str(tmp_path)]))) == 1
