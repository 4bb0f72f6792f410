"""Tables of projected flips."""

import json

import pytest

from rebnn_mm.analysis.flip_report import flip_page, flip_table, latent_lr_mult, read_rows, rows_json, with_row


def row(config, percent, label='as shipped', silent=()):
    return dict(
        config=config, label=label, optimizer='SGD 0.1', schedule=dict(steps=2000, highest=1.0, mean=0.5), steps=40,
        batch_size=8, data='demo/coco_sample', notes=['batch 8 in place of 32'], seed=0, seconds=1.0, enough=100.0,
        percent=percent, step_percent=percent / 1000, least='layer1.0.conv1', least_percent=percent / 2,
        silent=list(silent), verdict=f'signs flip {percent} %', layers=[],
        made=dict(date='2026-11-22', torch='2.13.0'),
    )  # fmt: skip


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


def test_the_page_has_a_column_per_label():
    rows = [row('b.py', 20, silent=['layer2']), row('a.py', 150), row('b.py', 200, 'corrected')]
    lines = flip_page(rows).splitlines()
    header = next(line for line in lines if line.startswith('| config'))
    assert header.count('|') == 11 and '| as shipped | corrected |' in header
    table = [line for line in lines if line.startswith('| `')]
    assert table[0].startswith('| `a.py` | SGD 0.1 | 2,000 | 1,000 | 0.15 | 150 |  | 75 (layer1.0.conv1) |')
    assert '| 20 | 200 | 100 (layer1.0.conv1) |  | 1 |' in table[1]
    assert '1 of 2 stay below' not in flip_page(rows)  # the last label counts
    assert '2026-11-22, seed 0; torch 2.13.0.' in lines[-1]
    assert json.loads(rows_json(rows))[0]['silent'] == ['layer2']


def test_what_is_needed_is_said_below_the_limit():
    text = flip_page([row('a.py', 20, silent=['layer2']), row('b.py', 0)])
    assert '2 of 2 configs stay below 100 %' in text
    assert '| x 5 | 1 |' in text and '| x ? | 1 |' in text
    assert '- `a.py`: layer2' in text


def test_the_table_for_the_terminal():
    text = flip_table([row('configs/a.py', 20)])
    assert text.splitlines()[0].startswith('config  label')
    assert '\nMETHOD=bnn a ' in flip_table([row('METHOD=bnn configs/a.py', 20)])
    assert 'configs/a.py: signs flip 20 %.\n  40 steps of 8 on demo/coco_sample; batch 8 in place of 32\n' in text


def test_the_rate_that_a_config_has():
    assert latent_lr_mult(dict(optimizer=dict(lr=1))) == 1
    assert latent_lr_mult(dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=10))))) == 10
