"""The page that runs packed files in the browser, in headless Chromium against the same files in Python."""

import functools
import http.server
import json
import queue
import re
import shutil
import subprocess
import threading
import urllib.parse

import numpy as np
import pytest

from rebnn_mm.deploy import load
from tests.runtime.test_wasm import build_module
from tests.scripts import ROOT

CHROMIUM = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
PAGE = (ROOT / 'docs/browser.md').read_text()
# Presses the page's button, or drops files on it one after the other, and sends back what it then shows.
DRIVER = """
<script type="module">
const page = document.querySelector('[data-detector]');
const end = () => new Promise((done) => {
  new MutationObserver((_, observer) => {
    if (page.dataset.state === 'busy') return;
    observer.disconnect();
    done();
  }).observe(page, {attributes: true});
});
const {side, files} = JSON.parse(new URLSearchParams(location.search).get('todo'));
page.querySelector('[data-side]').value = side;
for (const name of files.length ? files : [null]) {
  const ended = end();
  if (name) {
    const transfer = new DataTransfer();
    transfer.items.add(new File([await (await fetch(name)).blob()], name));
    page.dispatchEvent(new DragEvent('drop', {dataTransfer: transfer}));
  } else page.querySelector('[data-run]').click();
  await ended;
}
const text = (part) => page.querySelector(`[data-${part}]`).textContent;
const body = {state: page.dataset.state, said: text('status'), found: page.detail, words: text('found')};
await fetch('result', {method: 'POST', body: JSON.stringify(body)});
</script>
"""


class Site(http.server.SimpleHTTPRequestHandler):
    results: queue.Queue = queue.Queue()

    def do_POST(self):
        self.results.put(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture(scope='module')
def show(tmp_path_factory):
    """Drops files on the page, or presses its button if there are none; gives what the page then shows."""
    if not CHROMIUM:
        pytest.skip('needs chromium')
    folder = tmp_path_factory.mktemp('site')
    module = build_module()
    elements = re.search(r'<div class="detector".*</script>', PAGE, flags=re.DOTALL)[0]
    links = ''
    for file, name in re.findall(r'\]\(\.\./(\S+)\)\{\.([\w-]+)\}', PAGE):
        links += f'<a class="{name}" href="{file.rpartition("/")[2]}"></a>'
    (folder / 'index.html').write_text(f'<!DOCTYPE html><body>{links}{elements}{DRIVER}')
    for path in (
        ROOT / 'docs/browser.js',
        module / 'rebnn.js',
        module / 'rebnn.wasm',
        *(ROOT / 'rebnn_mm/zoo').iterdir(),
    ):
        shutil.copy(path, folder)

    def run(*files: str, side: str = '') -> dict:
        todo = json.dumps({'side': side, 'files': files})
        with http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Site, directory=folder)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            options = ['--headless=new', '--no-sandbox', '--disable-gpu', f'--user-data-dir={folder / "profile"}']
            address = f'http://127.0.0.1:{server.server_port}/index.html?{urllib.parse.urlencode({"todo": todo})}'
            command = [CHROMIUM, *options, address]
            browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                return Site.results.get(timeout=240)
            finally:
                browser.terminate()
                browser.wait()
                server.shutdown()

    return run


def is_near(box, other) -> bool:
    return np.abs(np.subtract(box, other)).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize(
    'files', [[], ['blood-cells-tiny.onnx'], ['board-defects.onnx', 'board.png']], ids=['sample', 'model', 'both']
)
def test_the_browser_finds_what_python_finds(show, files):
    result = show(*files)
    assert result['state'] == 'done', result['said']
    print(result['said'])
    (zoo_model,) = re.findall(r'zoo/([\w-]+)\.onnx\)\{\.zoo-model\}', PAGE)
    name = files[0].removesuffix('.onnx') if files else zoo_model
    expected = load(f'zoo:{name}')(f'zoo:{files[1] if files[1:] else "BloodImage_00021.jpg"}')
    python = [(one.name, one.score, one.box) for one in expected.at_least(0.45)]
    page = [(one['name'], one['score'], one['box']) for one in result['found']]
    # Another rounding may turn a sign, which moves a score a little, here and there across a threshold.
    for some, others in ((page, python), (python, page)):
        sure = [one for one in some if one[1] >= 0.55]
        assert len(sure) > 1
        for name, score, box in sure:
            close = [abs(score - other) for label, other, place in others if label == name and is_near(box, place)]
            assert close and min(close) < 0.05, (name, score, box)


@pytest.mark.slow
def test_the_browser_names_what_python_names(show):
    result = show('horse.png', 'cifar10-resnet20.onnx', side='32')
    assert result['state'] == 'done', result['said']
    expected = load('zoo:cifar10-resnet20', size=(32, 32))('zoo:horse.png')
    assert [one['name'] for one in result['found']] == [label.name for label in expected]
    np.testing.assert_allclose(
        [one['score'] for one in result['found']], [label.score for label in expected], atol=0.02
    )
    assert result['words'].startswith('horse 0.')


@pytest.mark.slow
@pytest.mark.parametrize(
    ('files', 'sentence'),
    [
        (['cifar10-resnet20.onnx'], 'does not say how large its images are'),
        (['cards.json'], 'not an image that this browser reads'),
    ],
    ids=['no_size', 'no_image'],
)
def test_what_does_not_work_is_one_sentence(show, files, sentence):
    result = show(*files)
    assert result['state'] == 'failed' and sentence in result['said']
