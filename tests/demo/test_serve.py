"""Under load every image gets its own answer, bad ones theirs, and the network takes several at a time."""

import configparser
import http.client
import io
import json
import shlex
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from demo import serve
from rebnn_mm.deploy import load
from rebnn_mm.errors import RebnnError
from tests.deploy import models

uvicorn = pytest.importorskip('uvicorn')
pytest.importorskip('fastapi')

ROOT = Path(__file__).parents[2]


@pytest.fixture
def images():
    found = []
    for seed in range(12):
        file = io.BytesIO()
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 40 + 8 * (seed % 3), 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file, 'png')
        found.append(file.getvalue())
    return found


@contextmanager
def served(model, **options):
    """The port of a server that runs meanwhile."""
    with socket.create_server(('127.0.0.1', 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(serve.make_app(model, **options), log_level='error'))
        thread = threading.Thread(target=server.run, kwargs={'sockets': [listening]}, daemon=True)
        thread.start()
        end = time.monotonic() + 60
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def ask(port, body=None):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
    connection.request('GET' if body is None else 'POST', '/', body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def together(port, bodies):
    with ThreadPoolExecutor(len(bodies)) as clients:
        return list(clients.map(lambda body: ask(port, body), bodies))


def test_many_at_a_time(tmp_path, images):
    model = load(models.write(models.classifier(), tmp_path / 'model.onnx'), use_library=False)
    expected = [model(image) for image in images]
    cut = images[0][: len(images[0]) // 2]
    with served(model) as port:
        for _ in range(5):
            answers = together(port, [*images, cut, b'no image'])
            for labels, (status, found) in zip(expected, answers, strict=False):
                assert status == 200 and [one['label'] for one in found] == [label.number for label in labels]
                assert np.allclose([one['score'] for one in found], [label.score for label in labels], atol=1e-5)
            assert [status for status, _ in answers[-2:]] == [422, 422]
            assert 'what was given as 8 bytes cannot be read as an image' in answers[-1][1]['detail']
        status, about = ask(port)
    assert status == 200 and about['task'] == 'classification' and about['classes'] == list(models.CLASSES)
    assert about['images'] == 5 * 14 and 5 <= about['batches'] < 5 * 14


def test_a_detector_and_its_threshold(files, images):
    model = load(files['detector'], use_library=False)
    with served(model, score_thr=0.5) as port:
        assert together(port, images) == [(200, model(image).at_least(0.5).to_dicts()) for image in images]


@pytest.fixture
def files(tmp_path):
    return {'detector': models.write(models.detector(), tmp_path / 'detector.onnx')}


def test_too_many_are_sent_away_and_too_large_ones(files, images, monkeypatch):
    monkeypatch.setattr(serve, 'LARGEST', 1 << 20)
    model = load(files['detector'], use_library=False)
    with served(model, batch=1, waiting=1) as port:
        answers = together(port, images * 2)
        assert {status for status, _ in answers} <= {200, 503}
        assert all(found['detail'] == 'too many images wait; try again' for status, found in answers if status == 503)
        assert ask(port, bytes(2 << 20)) == (413, {'detail': 'an image may have 1 MiB'})
        assert ask(port, images[0]) == (200, model(images[0]).at_least(0.3).to_dicts())


def test_what_cannot_be_served_is_one_sentence(tmp_path, monkeypatch, capsys):
    raw = models.write(models.raw(), tmp_path / 'raw.onnx')
    for model, words in ((raw, 'gives neither labels nor boxes'), (tmp_path / 'no.onnx', 'no packed model at')):
        monkeypatch.setattr(sys, 'argv', ['serve.py', str(model)])
        with pytest.raises(SystemExit, match='1'):
            serve.main()
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith('serve.py: ') and words in line
        monkeypatch.setattr(sys, 'argv', ['serve.py', str(model), '--traceback'])
        with pytest.raises(RebnnError, match=words):
            serve.main()


@pytest.mark.parametrize('missing', ['fastapi', 'uvicorn'])
def test_what_it_needs_is_said(monkeypatch, capsys, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit, match='1'):
        serve.main(['zoo:blood-cells'])
    assert f'{missing} is not installed. Run: pip install fastapi uvicorn' in capsys.readouterr().err


def test_the_unit_of_systemd_calls_it():
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read(ROOT / 'demo/rebnn-serve.service')
    _, script, *arguments = shlex.split(unit['Service']['ExecStart'])
    assert Path(script).name == 'serve.py' and serve.parse_args(arguments).host == '127.0.0.1'
    assert unit['Install']['WantedBy'] == 'multi-user.target'
