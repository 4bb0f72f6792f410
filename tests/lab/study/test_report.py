"""The page that the records make."""

import csv
import json
import re
from pathlib import Path

import pytest

from lab.study import report

ROOT = Path(__file__).parents[3]
LISTS = tuple(report.TABLES)
PARTS = (*LISTS, 'oscillation')
CHOICES = tuple(sorted(path.stem for path in (ROOT / 'lab' / 'experiments' / 'choices').glob('*.json')))


@pytest.mark.slow
def test_the_report_fills_a_page_from_the_records_that_are_kept(monkeypatch, tmp_path):
    page, other = (tmp_path / 'docs' / name for name in ('results.md', 'gamma.md'))
    page.parent.mkdir()
    markers = [f'<!-- begin experiment {part} -->\n<!-- end experiment {part} -->\n' for part in PARTS]
    page.write_text(f'# Results\n{"".join(markers[:3])}the end\n')
    choices = [f'<!-- begin choice {name} -->\n<!-- end choice {name} -->\n' for name in CHOICES]
    other.write_text(f'# Gamma\n{"".join([*markers[3:], *choices])}the end\n')
    arguments = ['report', '--pages', str(page), str(other), '--csv', str(tmp_path / 'results.csv')]
    monkeypatch.setattr('sys.argv', arguments)
    report.main()
    for path, first in ((page, '# Results\n'), (other, '# Gamma\n')):
        assert path.read_text().startswith(first) and path.read_text().endswith('the end\n')
    assert page.read_text().count('runs are done') == 3
    text = page.read_text() + other.read_text()
    for figure in ('flips', 'weights'):
        assert (page.parent / 'images' / f'experiment_{figure}.png').stat().st_size > 10_000
        assert f'(images/experiment_{figure}.png)' in text
    assert len(re.findall('runs (are|is) done', text)) == len(LISTS) and '| ReBNN |' in text
    assert text.count('| file | AP | ms | MB |\n') == len(CHOICES) and '| zoo:blood-cells-tiny | 55.4 |' in text
    with (tmp_path / 'results.csv').open() as file:
        lines = list(csv.DictReader(file))
    kept = {json.loads(path.read_text())['id'] for path in (ROOT / 'lab' / 'experiments' / 'records').glob('*.json')}
    assert len(lines) >= len(kept)


def test_a_part_without_a_place_is_named(monkeypatch, capsys, tmp_path):
    page = tmp_path / 'results.md'
    page.write_text('# Results\n')
    monkeypatch.setattr('sys.argv', ['report', '--pages', str(page), '--csv', str(tmp_path / 'results.csv')])
    with pytest.raises(SystemExit):
        report.main()
    assert '<!-- begin experiment methods -->' in capsys.readouterr().err and page.read_text() == '# Results\n'
    assert list(tmp_path.iterdir()) == [page]  # no figures either
