"""Tables of projected flips."""

import pytest

from rebnn_mm.analysis.flip_report import flip_table, latent_lr_mult, read_rows, rows_json, with_row
from tests.flip_rows import row


def test_results_of_several_calls_are_kept(tmp_path):
    file = tmp_path / 'flips.json'
    rows = [row('a.py', 20), row('b.py', 150)]
    file.write_text(rows_json(rows))
    assert read_rows(file) == rows
    again = with_row(read_rows(file), row('a.py', 30))
    assert [(entry['config'], entry['percent']) for entry in again] == [('a.py', 30), ('b.py', 150)]
    assert len(with_row(again, row('a.py', 300, 'corrected'))) == 3
    assert read_rows(tmp_path / 'none.json') == []


@pytest.mark.parametrize('text', ['{}', '{"a": 1}', 'no json', '[{"config": "a.py"}]'])
def test_another_file_is_one_sentence(tmp_path, text):
    (tmp_path / 'other.json').write_text(text)
    with pytest.raises(ValueError, match='holds no results of this tool'):
        read_rows(tmp_path / 'other.json')


def test_the_table_for_the_terminal():
    text = flip_table([row('configs/a.py', 20)])
    assert text.splitlines()[0].startswith('config  label')
    assert '\nMETHOD=bnn a ' in flip_table([row('METHOD=bnn configs/a.py', 20)])
    assert 'configs/a.py: signs flip 20 %.\n  40 steps of 8 on demo/coco_sample; batch 8 in place of 32\n' in text


def test_the_rate_that_a_config_has():
    assert latent_lr_mult(dict(optimizer=dict(lr=1))) == 1
    assert latent_lr_mult(dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=10))))) == 10
