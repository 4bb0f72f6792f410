import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip('transformers')

from rebnn_mm.models.language import TextClassifier, load_pretrained, save_pretrained
from tests.models.language.test_split import TERNARY
from tests.models.language.tiny import tiny_encoder

ROOT = Path(__file__).parents[3]


def run(*args):
    command = [sys.executable, 'tools/model_converters/split_ternary.py', *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_directory_is_split_and_problems_are_one_sentence(tmp_path):
    encoder = tiny_encoder(tmp_path / 'encoder')
    save_pretrained(TextClassifier(encoder, num_labels=3, **TERNARY), str(tmp_path / 'ternary'))
    result = run(tmp_path / 'ternary', tmp_path / 'split')
    assert result.returncode == 0, result.stderr
    assert float(result.stdout.split()[-1]) < 1e-3
    assert load_pretrained(str(tmp_path / 'split')).conversion['binarize']['split'] is True
    for args, message in (
        ((tmp_path / 'ternary', tmp_path / 'split'), 'split exists already. Give the name of a new directory.'),
        ((encoder, tmp_path / 'new'), 'so it is a plain model of transformers.'),
    ):
        result = run(*args)
        assert result.returncode == 1 and message in result.stderr.strip().splitlines()[-1], result.stderr
    assert not (tmp_path / 'new').exists()
