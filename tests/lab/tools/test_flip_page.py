"""The page of projected flips."""

import json

from lab.tools.flip_page import flip_page, main
from lab.tools.flips import rows_json
from tests.lab.flip_rows import row


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


def test_the_page_is_written_from_the_rows(tmp_path, capsys):
    rows, page = tmp_path / 'flips.json', tmp_path / 'flips.md'
    rows.write_text(rows_json([row('a.py', 20)]))
    main([str(rows), str(page)])
    assert capsys.readouterr().out == f'{page}: 1 rows\n'
    assert page.read_text() == flip_page([row('a.py', 20)])
