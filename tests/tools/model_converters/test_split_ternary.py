import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip('transformers')

from rebnn_mm.models.language import TextClassifier, load_pretrained, save_pretrained
from tests.models.language.test_split import TERNARY, learn_biases
from tests.models.language.tiny import tiny_encoder

TOOL = Path(__file__).parents[3] / 'tools/model_converters/split_ternary.py'


def test_directory_is_split_and_problems_are_one_sentence(tmp_path, monkeypatch, capsys):
    def run(*args):
        monkeypatch.setattr(sys, 'argv', [str(TOOL), *map(str, args)])
        runpy.run_path(str(TOOL), run_name='__main__')
        return capsys.readouterr().out

    encoder = tiny_encoder(tmp_path / 'encoder')
    ternary = TextClassifier(encoder, num_labels=3, **TERNARY)
    learn_biases(ternary)
    save_pretrained(ternary, str(tmp_path / 'ternary'))
    printed = run(tmp_path / 'ternary', tmp_path / 'split')
    assert float(printed.split()[-1]) < 1e-6
    assert load_pretrained(str(tmp_path / 'split')).conversion['binarize']['split'] is True
    for args, message in (
        ((tmp_path / 'ternary', tmp_path / 'split'), 'split exists already. Give the name of a new directory.'),
        ((encoder, tmp_path / 'new'), 'so it is a plain model of transformers.'),
    ):
        with pytest.raises(SystemExit) as stopped:
            run(*args)
        assert message in str(stopped.value) + capsys.readouterr().err
    assert not (tmp_path / 'new').exists()
