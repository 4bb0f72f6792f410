"""The page that runs a packed detector in the browser, in headless Chromium against the same file in Python."""

import functools
import http.server
import json
import queue
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest

from rebnn_mm.deploy import load
from tests.scripts import ROOT

CHROMIUM = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
PAGE = (ROOT / 'docs/browser.md').read_text()
SCRIPT = (ROOT / 'docs/browser.js').read_text()
ORT, PACKAGE = re.search(r"'(https://cdn[^']*/(onnxruntime-web@[\d.]+)/dist/)'", SCRIPT).groups()
# Presses the page's button and sends back what it then shows.
DRIVER = """
<script type="module">
const page = document.querySelector('[data-detector]');
new MutationObserver(() => {
  if (page.dataset.state === 'busy') return;
  const said = page.querySelector('[data-status]').textContent;
  fetch('result', {method: 'POST', body: JSON.stringify({state: page.dataset.state, said, found: page.detail})});
}).observe(page, {attributes: true});
page.querySelector('[data-run]').click();
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


@pytest.fixture
def site(tmp_path):
    """The page's own elements and script, with the files that it links to, and onnxruntime-web from npm."""
    if not CHROMIUM or not shutil.which('npm'):
        pytest.skip('needs chromium and npm')
    install = ['npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefix', tmp_path, PACKAGE]
    if subprocess.run(install, capture_output=True, timeout=300, check=False).returncode:
        pytest.skip(f'npm did not install {PACKAGE}')
    elements = re.search(r'<div class="detector".*</script>', PAGE, flags=re.DOTALL)[0]
    links = ''
    for file, name in re.findall(r'\]\(\.\./(\S+)\)\{\.([\w-]+)\}', PAGE):
        shutil.copy(ROOT / file, tmp_path)
        links += f'<a class="{name}" href="{file.rpartition("/")[2]}"></a>'
    (tmp_path / 'index.html').write_text(f'<!DOCTYPE html><body>{links}{elements}{DRIVER}')
    assert ORT in SCRIPT
    (tmp_path / 'browser.js').write_text(SCRIPT.replace(ORT, '/node_modules/onnxruntime-web/dist/'))
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Site, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}/index.html'
        server.shutdown()


@pytest.mark.slow
def test_the_browser_finds_what_python_finds(site, tmp_path):
    options = ['--headless=new', '--no-sandbox', '--disable-gpu', f'--user-data-dir={tmp_path / "profile"}']
    browser = subprocess.Popen([CHROMIUM, *options, site], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        result = Site.results.get(timeout=240)
    finally:
        browser.terminate()
        browser.wait()
    assert result['state'] == 'done', result['said']
    print(result['said'])
    expected = load('zoo:blood-cells')('zoo:BloodImage_00021.jpg').at_least(0.5)
    found = result['found']
    assert [one['name'] for one in found] == list(expected.names)
    np.testing.assert_allclose([one['score'] for one in found], expected.scores, atol=0.02)
    np.testing.assert_allclose([one['box'] for one in found], expected.boxes, atol=2)
