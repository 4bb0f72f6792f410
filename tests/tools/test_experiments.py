"""tools/experiments as a user runs it: real trainings by list, once and not twice, interrupted, and their report."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = 'tools/experiments/run.py'
REPORT = 'tools/experiments/report.py'
LIST = """
title = 'A tiny classifier'
score = 'accuracy/top1'
seeds = [0, 1]
budget = {{'train_cfg.max_epochs': 1}}
test = {{}}
options = {{'default_hooks.checkpoint.interval': 1}}
runs = [
    dict(name='good', label='Good', config={config!r}),
    dict(name='bad', label='Bad', config={config!r}, options={{'optim_wrapper.optimizer.lr': -1}}),
]
"""


@pytest.fixture(scope='module')
def place(classifier_config, tmp_path_factory):
    """A list of two runs, and the flags that keep its records and work dirs out of the tree."""
    pytest.importorskip('mmpretrain')
    folder = tmp_path_factory.mktemp('experiments')
    (folder / 'tiny.py').write_text(LIST.format(config=str(classifier_config)))
    return folder, ('--records', folder / 'records', '--work-root', folder / 'work')


@pytest.fixture(scope='module')
def first(run_tool, place):
    """The finished first call."""
    folder, flags = place
    return run_tool(RUN, folder / 'tiny.py', '--seeds', 0, '--workers', 2, *flags)


def records(folder):
    return {r['name']: r for r in (json.loads(p.read_text()) for p in sorted((folder / 'records').glob('*.json')))}


# Slow, as each run is processes that import everything; tests/experiments has the same with trainings that do nothing.
@pytest.mark.slow
def test_runs_are_trained_and_recorded_and_a_failure_stops_nothing(first, place):
    found = records(place[0])
    assert found['good']['status'] == 'finished', first.stdout + first.stderr
    assert 0 <= found['good']['final'] <= 100 and found['good']['cost']['cpu_s'] > 1
    assert 0 <= found['good']['test']['scores']['accuracy/top1'] <= 100
    assert found['good']['made']['command'].startswith('python tools/experiments/run.py')
    assert found['good']['made']['versions']['torch']
    assert found['bad']['status'] == 'failed' and 'Invalid learning rate: -1' in found['bad']['error']
    assert first.returncode == 1 and '1 finished, 1 failed, 0 had records' in first.stdout


@pytest.mark.slow
def test_what_is_done_is_not_done_again(first, run_tool, place):
    folder, flags = place
    done = run_tool(RUN, folder / 'tiny.py', '--seeds', 0, '--only', 'good', *flags)
    assert done.returncode == 0, done.stderr
    assert '0 finished, 0 failed, 1 had records' in done.stdout
    shown = run_tool(RUN, folder / 'tiny.py', '--show', *flags).stdout.splitlines()
    assert [line.split()[-1] for line in shown] == ['finished', 'failed', 'done', 'done']


@pytest.mark.slow
def test_an_interruption_stops_the_runs_and_says_how_to_go_on(place):
    folder, flags = place
    command = [sys.executable, RUN, folder / 'tiny.py', '--only', 'good', '--seeds', '1', *flags]
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'PYTHONUNBUFFERED': '1'},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if 'begins' in line:
            break
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and 'Traceback' not in err
    assert err.strip() == f'{RUN}: interrupted. The same command goes on.'
    assert 'stopped; it goes on from its last checkpoint' in out
    assert len(list((folder / 'records').glob('good_seed1_*'))) == 0


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (('experiments/none.py',), 'no experiments/none.py. Name a list of runs'),
        (('experiments/methods.py', 'experiments/gamma.py', '--only', 'bnn'), '--only names runs of one list'),
    ],
)
def test_a_mistake_is_one_sentence(run_tool, tmp_path, arguments, message):
    done = run_tool(RUN, *arguments, '--records', tmp_path, '--work-root', tmp_path)
    assert done.returncode == 1 and 'Traceback' not in done.stderr
    assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1


LISTS = (
    'methods', 'gamma', 'settings', 'settings_two_stage', 'longer', 'bccd', 'signs', 'signs_bccd', 'signs_kangaroo'
)  # fmt: skip
PARTS = (*LISTS, 'oscillation', 'overview')


def test_the_report_fills_a_page_from_the_records_that_are_kept(run_tool, tmp_path):
    page = tmp_path / 'docs' / 'results.md'
    page.parent.mkdir()
    markers = ''.join(f'<!-- begin experiment {part} -->\n<!-- end experiment {part} -->\n' for part in PARTS)
    page.write_text(f'# Results\n{markers}the end\n')
    done = run_tool(REPORT, '--page', page, '--csv', tmp_path / 'results.csv')
    assert done.returncode == 0, done.stderr
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
