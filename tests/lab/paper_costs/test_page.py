"""The page on size and operations holds what its commands print."""

import re
import sys

import pytest

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from tests.scripts import ROOT, load_script

PAGE = ROOT / 'lab' / 'reports' / 'size_and_ops.md'
TOOL = 'lab/paper_costs/__main__.py'


@pytest.fixture
def run(monkeypatch, capsys):
    def run(tool, *args):
        monkeypatch.setattr(sys, 'argv', [tool, *map(str, args)])
        load_script(tool).main()
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_the_page_is_up_to_date(run, tmp_path):
    page = tmp_path / 'page.md'
    page.write_text(re.sub(r'\| 46.76 \| [\d.]+ \|', '| 46.76 | 0.0 |', PAGE.read_text()))
    assert page.read_text() != PAGE.read_text()
    assert run(TOOL, '--update', page) == f'{page}: tables renewed\n'
    assert page.read_text() == PAGE.read_text()
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.slow
def test_the_printed_tables_are_those_of_the_page(run):
    printed = run(TOOL).splitlines()
    assert any(line.startswith('| Table ') for line in printed)
    assert not set(filter(None, printed)) - set(PAGE.read_text().splitlines())


def test_the_quoted_output_of_get_ops_is_real(run):
    """The page leaves lines out and says so; what it quotes is there."""
    text = PAGE.read_text()
    command = re.search(r'^rebnn ops (configs/\S+)$', text, re.MULTILINE)
    quoted = re.search(r'```text\n(.*?)```', text, re.DOTALL)[1].splitlines()
    real = run('rebnn_mm/cli/ops.py', ROOT / command[1]).splitlines()
    assert len(quoted) > 15
    assert [line for line in quoted if line != '...' and line not in real] == []


def test_a_page_without_the_marks_is_left_alone(run, tmp_path, capsys):
    page = tmp_path / 'page.md'
    page.write_text('no marks\n')
    with pytest.raises(SystemExit, match='1'):
        run(TOOL, '--update', page)
    assert (
        'page.md: the page needs the lines <!-- begin own --> and <!-- end own -->, once each.'
        in capsys.readouterr().err
    )
    assert page.read_text() == 'no marks\n'
