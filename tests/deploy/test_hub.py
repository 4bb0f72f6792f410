"""Packed models to the Hugging Face hub and back: a folder, its card, and downloads from a hub of this test."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pytest

from rebnn_mm.deploy import Classifier, Detector, ModelFileError, hub, load, push
from rebnn_mm.deploy.hub import FILE, hub_path
from rebnn_mm.deploy.run import main as run
from rebnn_mm.deploy.zoo import cards

from . import models

hf = pytest.importorskip('huggingface_hub')

CARD = {'name': 'cells', 'licence': 'mit', 'scores': {'AP': 53.3}, 'data': {'name': 'BCCD'}, 'limits': 'one seed'}


class Hub(BaseHTTPRequestHandler):
    """What the hub answers to a download: files by repository, its own headers, and its error codes."""

    files: ClassVar[dict[str, dict[str, bytes]]] = {}

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.partition('?')[0].strip('/')
        repo = '/'.join(path.removeprefix('api/models/').split('/')[:2])
        if repo == 'owner/closed':
            return self.answer(401, {'X-Error-Code': 'GatedRepo'})
        if repo not in self.files:
            return self.answer(404, {'X-Error-Code': 'RepoNotFound'})
        if path.startswith('api/'):
            tree = [{'type': 'file', 'path': name, 'size': 1, 'oid': 'a' * 40} for name in self.files[repo]]
            return self.answer(200, {'Content-Type': 'application/json'}, json.dumps(tree).encode())
        revision, _, name = path.partition('/resolve/')[2].partition('/')
        if revision != 'main':
            return self.answer(404, {'X-Error-Code': 'RevisionNotFound'})
        if name not in self.files[repo]:
            return self.answer(404, {'X-Error-Code': 'EntryNotFound', 'X-Repo-Commit': 'a' * 40})
        self.answer(200, {'ETag': f'"{name}"', 'X-Repo-Commit': 'a' * 40}, self.files[repo][name])

    def answer(self, status, headers, body=b''):
        self.send_response(status)
        for key, value in {**headers, 'Content-Length': str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == 'GET':
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def remote(files, tmp_path, monkeypatch):
    """The hub's library, asking a server of this process."""
    data = {name: path.read_bytes() for name, path in files.items()}
    Hub.files = {
        'owner/cells': {FILE: data['detector'], 'small.onnx': data['classifier']},
        'owner/named': {'cifar.onnx': data['classifier']},
        'owner/several': {'a.onnx': b'', 'b.onnx': b''},
        'owner/empty': {'README.md': b'#'},
    }
    server = ThreadingHTTPServer(('127.0.0.1', 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f'http://127.0.0.1:{server.server_port}'
    monkeypatch.setattr('huggingface_hub.constants.ENDPOINT', address)
    template = f'{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}'
    monkeypatch.setattr('huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE', template)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_DISABLE_XET', True)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', False)
    yield server
    server.shutdown()
    server.server_close()


def test_a_model_of_the_hub_gives_what_its_file_gives(remote, files, image):
    np.testing.assert_array_equal(load('hf:owner/cells')(image).boxes, load(files['detector'])(image).boxes)
    assert load('hf:owner/cells/small.onnx')(image) == load(files['classifier'])(image)
    assert hub_path('hf:owner/named').name == 'cifar.onnx'
    assert isinstance(Detector.from_pretrained('owner/cells', revision='main'), Detector)


def test_what_was_fetched_stays_without_network(remote, monkeypatch):
    load('hf:owner/cells@main')
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    assert isinstance(load('hf:owner/cells@main'), Detector)


def test_the_command_runs_it(remote, photo, capsys):
    run(['hf:owner/named', str(photo), '--top', '1'])
    assert capsys.readouterr().out.startswith('class')


SENTENCES = {
    'hf:cells': 'names no model of the hub; write hf:owner/name or hf:owner/name/file.onnx',
    'hf:owner/lost': 'the hub has no such model, or it is private: check the name, or run hf auth login',
    'hf:owner/closed': 'its owner lets in who asks: do so on https://huggingface.co/owner/closed, then run',
    'hf:owner/cells@v9': 'the model has no such revision; without @ it is the newest',
    'hf:owner/cells/big.onnx': 'there is no big.onnx, only model.onnx, small.onnx: name one as hf:owner/cells/model',
    'hf:owner/several': 'there is no model.onnx, only a.onnx, b.onnx: name one as hf:owner/several/a.onnx',
    'hf:owner/empty': 'there is no model.onnx, and no other packed file',
}


@pytest.mark.parametrize('name', list(SENTENCES))
def test_what_is_not_there_is_one_sentence(remote, name):
    with pytest.raises(ModelFileError) as caught:
        load(name)
    assert str(caught.value).startswith(name) and SENTENCES[name] in str(caught.value)


def test_without_network_it_is_one_sentence(remote, monkeypatch):
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    with pytest.raises(ModelFileError, match='^hf:owner/named: it is not in the cache, and the hub cannot be reached'):
        load('hf:owner/named')


def test_without_the_library_it_is_one_sentence(files, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    with pytest.raises(SystemExit):
        run(['hf:a/b', 'cat.jpg'])
    assert ': hf:a/b: the hub needs huggingface_hub, which is not installed' in capsys.readouterr().err
    with pytest.raises(ModelFileError, match='^hf:a/b: the hub needs huggingface_hub'):
        load(files['classifier']).push_to_hub('a/b')


def test_a_folder_goes_there_and_back_without_the_library(files, tmp_path, image, monkeypatch):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    model = load(files['classifier'])
    model.save_pretrained(tmp_path / 'cells', CARD)
    assert (tmp_path / 'cells' / FILE).read_bytes() == files['classifier'].read_bytes()
    assert Classifier.from_pretrained(tmp_path / 'cells')(image) == model(image)
    with pytest.raises(ModelFileError, match='its task is classification, so it is a Classifier'):
        Detector.from_pretrained(tmp_path / 'cells')
    Classifier.from_pretrained(tmp_path / 'cells').save_pretrained(tmp_path / 'cells', CARD)
    (tmp_path / 'cells' / 'README.md').write_text('mine')
    with pytest.raises(ModelFileError, match=r'README.md exists with other content: remove it'):
        model.save_pretrained(tmp_path / 'cells', CARD)
    assert (tmp_path / 'cells' / 'README.md').read_text() == 'mine'


def test_the_hub_reads_the_card(files, tmp_path):
    load(files['detector']).save_pretrained(tmp_path, CARD)
    card = hf.ModelCard.load(tmp_path / 'README.md')
    assert (card.data.library_name, card.data.license) == ('rebnn_mm', 'mit')
    assert card.data.pipeline_tag == 'object-detection'
    (result,) = card.data.eval_results
    assert (result.dataset_name, result.metric_type, result.metric_value) == ('BCCD', 'AP', 53.3)
    assert '| limits | one seed |' in card.text and 'rebnn run hf:' in card.text


def test_a_model_of_the_zoo_brings_its_card(tmp_path):
    load('zoo:blood-cells-tiny').save_pretrained(tmp_path)
    text = (tmp_path / 'README.md').read_text()
    assert cards()[0]['limits'] in text and '| classes | RBC, WBC, Platelets |' in text


@pytest.mark.parametrize(
    ('card', 'sentence'),
    [
        ({'license': 'mit'}, "the card has the key 'license', which is none of name, licence"),
        ({'scores': {'AP': 'good'}}, 'scores of the card must be numbers by name'),
        ({'data': 'BCCD'}, 'data of the card must hold texts'),
    ],
)
def test_a_wrong_card_is_one_sentence_and_writes_nothing(files, tmp_path, card, sentence):
    with pytest.raises(ModelFileError, match=sentence):
        load(files['raw']).save_pretrained(tmp_path / 'out', card)
    assert not (tmp_path / 'out').exists()


def test_the_command_uploads_the_folder(files, tmp_path, monkeypatch, capsys):
    calls = []

    class Api:
        def __init__(self, token=None):
            calls.append(('token', token))

        def create_repo(self, repo, *, private, exist_ok):
            calls.append((repo, private, exist_ok))

        def upload_folder(self, *, repo_id, folder_path, commit_message):
            calls.append((repo_id, sorted(path.name for path in hub.Path(folder_path).iterdir())))
            return f'https://hub/{repo_id}/commit/1'

    monkeypatch.setattr(hf, 'HfApi', Api)
    (tmp_path / 'card.json').write_text(json.dumps(CARD))
    push.main([str(files['detector']), 'owner/cells', '--card', str(tmp_path / 'card.json'), '--private'])
    assert capsys.readouterr().out == 'https://hub/owner/cells/commit/1\n'
    assert calls == [('token', None), ('owner/cells', True, True), ('owner/cells', ['README.md', FILE])]


def test_the_command_can_only_write(files, tmp_path, capsys):
    push.main([str(files['raw']), 'owner/cells', '--folder', str(tmp_path / 'out')])
    assert (tmp_path / 'out' / 'README.md').read_text().startswith('---\nlibrary_name: "rebnn_mm"\n')
    with pytest.raises(SystemExit):
        push.main([str(files['raw']), 'owner/cells', '--card', str(tmp_path / 'no.json')])
    assert f': --card {tmp_path}/no.json cannot be read' in capsys.readouterr().err


def test_names_of_a_file_stay_texts_in_its_card(tmp_path):
    proto = models.raw()
    names = json.dumps(['<script>x</script>', '[a](https://b.c)', 'a | b', '\x1b[2J', 'half \ud800'])
    changes = {'rebnn.classes': names, 'rebnn.config': '<b>.py', 'rebnn.outputs': '["maps"]'}
    model = load(models.write(models.model(proto.graph, 'raw', **changes), tmp_path / 'a.onnx'), use_library=False)
    model.save_pretrained(tmp_path / 'folder')
    text = (tmp_path / 'folder/README.md').read_text(encoding='utf-8')
    row = r'| classes | &lt;script&gt;x&lt;/script&gt;, \[a\](https://b.c), a \| b, �\[2J, half � |'
    assert row in text.splitlines() and '# &lt;b&gt;' in text.splitlines() and '<' not in text
