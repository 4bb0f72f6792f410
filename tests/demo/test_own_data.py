"""The notebook on data of one's own: every cell runs in turn, on a few small photographs."""

import json
import os
import subprocess
import sys

import pytest
from PIL import Image

from tests.scripts import ROOT

NOTEBOOK = ROOT / 'demo' / 'own_data.ipynb'
SAMPLE = ROOT / 'demo' / 'coco_sample'
SMALL, IMAGES = 160, 4


def notebook():
    """Its cells of code."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())['cells'] if cell['cell_type'] == 'code']
    return [{**cell, 'source': ''.join(cell['source'])} for cell in cells]


def few_photographs(folder):
    """The first images of the sample, scaled down, with their boxes."""
    for split in ('train', 'val'):
        content = json.loads((SAMPLE / f'annotations/instances_{split}2017.json').read_text())
        content['images'] = content['images'][:IMAGES]
        factors = {}
        (folder / split).mkdir(parents=True)
        for image in content['images']:
            with Image.open(SAMPLE / f'{split}2017' / image['file_name']) as photo:
                factors[image['id']] = factor = SMALL / max(photo.size)
                image['width'], image['height'] = (round(side * factor) for side in photo.size)
                photo.resize((image['width'], image['height'])).save(folder / split / image['file_name'])
        content['annotations'] = [
            {**entry, 'bbox': [factors[entry['image_id']] * side for side in entry['bbox']], 'segmentation': []}
            for entry in content['annotations']
            if entry['image_id'] in factors
        ]
        (folder / f'{split}.json').write_text(json.dumps(content))


def test_every_cell_has_its_output_without_an_error_and_the_steps_are_those_of_the_page():
    cells = notebook()
    assert [cell['execution_count'] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell['outputs']]
    assert outputs and not any(output['output_type'] == 'error' or 'Traceback' in str(output) for output in outputs)
    assert sum('image/jpeg' in output.get('data', {}) for output in outputs) == 2
    page = (ROOT / 'docs' / 'your_own_data.md').read_text()
    commands = [' '.join(cell['source'].split()[:2])[1:] for cell in cells if cell['source'].startswith('!')]
    assert commands == ['rebnn new-config', 'rebnn train', 'rebnn export', 'rebnn test-packed']
    assert all(command in page for command in commands)


@pytest.mark.slow
def test_every_cell_runs(tmp_path, monkeypatch):
    few_photographs(tmp_path / 'photos')
    (tmp_path / 'bin').mkdir()
    command = tmp_path / 'bin' / 'rebnn'
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/rebnn_command.py "$@"\n')
    command.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PATH', f'{command.parent}{os.pathsep}{os.environ["PATH"]}')
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    names: dict = {}
    for cell in notebook():
        source = (
            cell['source'].replace("folder = 'blood_cells'", "folder = 'photos'").replace('epochs = 24', 'epochs = 1')
        )
        if source.startswith('!'):
            done = subprocess.run(
                source[1:].format_map(names), shell=True, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f'{source}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}'
        else:
            exec(compile(source, cell['id'], 'exec'), names)
    assert (tmp_path / 'own_data' / 'mine.onnx').stat().st_size < 4e6
    assert set(names['found'].names) <= set(names['names'].values())
    assert names['picture'].size[0] <= SMALL
