import pytest

pytest.importorskip('transformers')

from rebnn_mm.models.language import TextClassifier, load_pretrained, save_pretrained
from tests.models.language.tiny import TERNARY, learn_biases, tiny_encoder
from tests.scripts import run_here


def test_directory_is_split_and_problems_are_one_sentence(tmp_path, capsys):
    def run(*args):
        run_here('rebnn split-ternary', *args)
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
