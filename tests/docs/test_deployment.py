"""The script of docs/deployment.md that needs nothing of this project finds what our own runner finds."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from rebnn_mm.deploy import load
from rebnn_mm.deploy.native import library_path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / 'docs' / 'deployment.md'
PHOTO = 'zoo:BloodImage_00021.jpg'


def test_the_script_for_plain_onnxruntime():
    section = PAGE.read_text().partition('## In plain ONNX Runtime')[2]
    code = re.search(r'```python\n(.*?)```', section, re.DOTALL)[1]
    assert 'from rebnn' not in code and code.count('library = None') == 1
    code = code.replace('library = None', f'library = {str(library_path())!r}')
    done = subprocess.run([sys.executable, '-I', '-c', code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [re.fullmatch(r'(\w+) ([\d.]+) \[(.*)\]', line).groups() for line in done.stdout.splitlines()]
    found = load('zoo:blood-cells')(PHOTO).at_least(0.8)
    for name, box in zip(found.names, found.boxes, strict=True):
        apart = [np.abs(np.fromstring(text, sep=',') - box).max() for kind, _, text in rows if kind == name]
        assert min(apart) < 15, (name, box)
    assert len(found) <= len(rows) <= 2 * len(found)
