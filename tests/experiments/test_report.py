"""The page that the records make."""

import csv
import json
from pathlib import Path

from experiments.study import report

ROOT = Path(__file__).parents[2]
LISTS = (
    'methods', 'gamma', 'settings', 'settings_two_stage', 'longer', 'bccd', 'signs', 'signs_bccd', 'signs_kangaroo',
    'detectors_bccd', 'detectors_kangaroo',
)  # fmt: skip
PARTS = (*LISTS, 'oscillation', 'overview')


def test_the_report_fills_a_page_from_the_records_that_are_kept(monkeypatch, tmp_path):
    page = tmp_path / 'docs' / 'results.md'
    page.parent.mkdir()
    markers = ''.join(f'<!-- begin experiment {part} -->\n<!-- end experiment {part} -->\n' for part in PARTS)
    page.write_text(f'# Results\n{markers}the end\n')
    monkeypatch.setattr('sys.argv', ['report', '--page', str(page), '--csv', str(tmp_path / 'results.csv')])
    report.main()
    text = page.read_text()
    assert text.startswith('# Results\n') and text.endswith('the end\n')
    for figure in ('differences', 'flips', 'weights'):
        assert (page.parent / 'images' / f'experiment_{figure}.png').stat().st_size > 10_000
        assert f'(images/experiment_{figure}.png)' in text
    assert text.count('runs are done') == len(LISTS) and '| ReBNN |' in text
    with (tmp_path / 'results.csv').open() as file:
        lines = list(csv.DictReader(file))
    kept = {json.loads(path.read_text())['key'] for path in (ROOT / 'experiments' / 'records').glob('*.json')}
    assert len(lines) >= len(kept)
