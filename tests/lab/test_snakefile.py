"""lab/Snakefile as a user runs it: what it plans, and real trainings by list, once and not twice."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIST = """
title = 'A tiny classifier'
score = 'accuracy/top1'
seeds = [0, 1]
budget = {{'train_cfg.max_epochs': 1}}
test = {{}}
options = {{'default_hooks.checkpoint.interval': 1}}
runs = [
    dict(name='good', label='Good', config={config!r}),
    dict(name='after', label='After', config={config!r}, start='good', seeds=[0]),
    dict(name='bad', label='Bad', config={config!r}, options={{'optim_wrapper.optimizer.lr': -1}}),
]
"""
SNAKEMAKE = Path(sys.executable).with_name('snakemake')

pytestmark = pytest.mark.skipif(not SNAKEMAKE.is_file(), reason='Snakemake is not installed')


def snakemake(folder, *arguments, config=()):
    """Run the workflow on the lists of a folder; all that it writes stays in there."""
    settings = [f'lists={folder / "lists"}', f'work={folder / "work"}', *config]
    command = [SNAKEMAKE, '-s', 'lab/Snakefile', '--cores', '2', '--nolock', *arguments, '--config', *settings]
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False)


def records(folder):
    return {
        r['name']: r for r in (json.loads(p.read_text()) for p in sorted((folder / 'lists/records').glob('*.json')))
    }


@pytest.fixture
def place(tmp_path):
    """A list of three settings of a config that is not there, as planning reads no config."""
    (tmp_path / 'lists').mkdir()
    (tmp_path / 'lists' / 'tiny.py').write_text(LIST.format(config='none.py'))
    return tmp_path


def planned(done):
    return sorted(line.split()[-1] for line in done.stdout.splitlines() if line.strip().startswith('output:'))


def test_every_run_is_planned_behind_its_start(place):
    done = snakemake(place, 'tiny', '--dry-run')
    assert done.returncode == 0, done.stderr
    found = planned(done)
    assert sum('trained.json' in path for path in found) == sum('/records/' in path for path in found) == 5


@pytest.mark.slow
def test_names_and_seeds_are_chosen(place):
    done = snakemake(place, 'tiny', '--dry-run', config=['only=bad,good', 'seeds=1'])
    assert [Path(path).stem for path in planned(done) if '/records/' in path] == ['tiny.bad.seed1', 'tiny.good.seed1']
    done = snakemake(place, 'tiny', '--dry-run', config=['only=none'])
    assert done.returncode == 1 and "tiny has no run 'none'. It has: good, after, bad." in done.stdout + done.stderr


@pytest.mark.slow
def test_what_has_a_record_is_left_out_and_needs_no_weights(place):
    kept = ROOT / 'lab' / 'experiments'
    done = subprocess.run(
        [SNAKEMAKE, '-s', 'lab/Snakefile', '--cores', '1', '--nolock', '--dry-run', 'gamma',
         '--config', 'only=gamma_0,gamma_adaptive', 'seeds=0'],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert planned(done) == [] and any((kept / 'records').iterdir())


# Slow, as each run is processes that import everything; test_run.py has the same with trainings that do nothing.
@pytest.mark.slow
def test_runs_are_trained_and_recorded_and_a_failure_stops_no_other(place, classifier_config):
    pytest.importorskip('mmpretrain')
    (place / 'lists' / 'tiny.py').write_text(LIST.format(config=str(classifier_config)))
    first = snakemake(place, 'tiny', '--keep-going', config=['seeds=0'])
    found = records(place)
    assert first.returncode == 1 and set(found) == {'good', 'after'}, first.stderr
    assert 'Invalid learning rate: -1' in first.stderr
    assert 0 <= found['good']['final'] <= 100 and found['good']['cost']['cpu_s'] > 1
    assert 0 <= found['good']['test']['scores']['accuracy/top1'] <= 100
    assert found['after']['start'] == found['good']['id']
    assert found['good']['made']['command'].startswith('snakemake -s lab/Snakefile')
    assert found['good']['made']['versions']['torch'] and found['good']['made']['workers'] == 2
    (record,) = (place / 'lists/records').glob('tiny.after*')
    record.rename(place / 'after.json')
    fewer = planned(snakemake(place, 'tiny', '--dry-run', '--cores', '1', config=['seeds=0', 'only=after']))
    assert [Path(path).name for path in fewer] == [record.name]
    (place / 'after.json').rename(record)
    shutil.rmtree(place / 'work')
    again = snakemake(place, 'tiny', config=['seeds=0', 'only=good,after'])
    assert again.returncode == 0 and not (place / 'work').exists()
