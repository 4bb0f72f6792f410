"""The one-command table on a tiny encoder and a generated GLUE folder."""

import shutil

import pytest
import yaml

pytest.importorskip('transformers')

from lab.tools.glue_results import COLUMNS, ROWS, is_trained, scores_of
from tests.datasets.glue_folder import write_glue
from tests.models.language.tiny import tiny_encoder
from tests.scripts import ROOT, load_script, run_main, run_script

PAPER = yaml.safe_load((ROOT / 'configs/glue/paper.yml').read_text())['Rows']
ONE = ['--network', 'minilm', '--tasks', 'rte', '--rows', 'real']


def train_table(folder, *arguments):
    """As a user calls it; trainings are processes of their own."""
    done = run_script('lab/tools/glue_table.py', *arguments, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def table(monkeypatch, capsys):
    """The same in this process, for what trains nothing."""
    tool = load_script('lab/tools/glue_table.py')

    def call(folder, *arguments, expect=0):
        monkeypatch.chdir(folder)
        code = run_main(tool.main, *arguments)
        assert code == expect
        return capsys.readouterr().out

    return call


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """A folder in which one run has been trained and scored."""
    folder = tmp_path_factory.mktemp('run')
    tiny_encoder(folder / 'encoder')
    write_glue(folder / 'data/glue', rows=8)
    out = train_table(
        folder, *ONE, '--encoder', 'encoder', '--cfg-options', 'train_cfg.max_iters=2', 'train_cfg.val_interval=1'
    )
    return folder, out


def cells(out, name):
    (line,) = [line for line in out.splitlines() if line.startswith(f'│ {name}')]
    return [cell.strip() for cell in line.strip('│').split('│')]


@pytest.mark.slow
def test_trains_scores_and_prints(finished):
    folder, out = finished
    work_dir = folder / 'work_dirs/minilm_rte'
    assert is_trained(work_dir, 2) and (work_dir / 'pretrained/config.json').is_file()
    scores = scores_of(work_dir)
    shown = f'{scores["glue/accuracy"]:.1f}'
    assert cells(out, 'Real-valued') == ['Real-valued', '32-32-32', 'measured', shown, shown]
    assert cells(out, 'majority class') == ['majority class', '', 'measured', '50.0', '50.0']
    assert 'the paper' not in out  # which has no MiniLM


def test_scores_whose_file_was_cut_off_are_measured_again(tmp_path):
    scores = tmp_path / 'test' / 'time' / 'time.json'
    scores.parent.mkdir(parents=True)
    (tmp_path / 'best_glue_accuracy_iter_2.pth').touch()
    scores.write_text('{"glue/accuracy": 50.0}')
    assert scores_of(tmp_path) == {'glue/accuracy': 50.0}
    scores.write_text('{"glue/accu')
    assert scores_of(tmp_path) is None


@pytest.mark.slow
def test_what_is_finished_is_not_run_again(table, finished):
    folder, first = finished
    options = ['--encoder', 'encoder', '--cfg-options', 'train_cfg.max_iters=2']
    again = table(folder, *ONE, *options)
    assert '=== ENCODER=minilm TASK=rte python' in first and '===' not in again
    assert cells(again, 'Real-valued') == cells(first, 'Real-valued')
    assert 'minilm_rte: finished' in table(folder, *ONE, '--dry-run', *options)


@pytest.mark.slow
def test_longer_training_is_resumed_and_stale_scores_are_not_shown(table, finished, tmp_path):
    shutil.copytree(finished[0], tmp_path / 'run')
    out = table(tmp_path / 'run', *ONE, '--dry-run', '--encoder', 'encoder', '--cfg-options', 'train_cfg.max_iters=9')
    assert 'minilm_rte: to run' in out and 'train.py' in out and '--resume' in out
    out = table(tmp_path / 'run', *ONE, '--collect', '--cfg-options', 'train_cfg.max_iters=9')
    assert cells(out, 'Real-valued')[3:] == ['-', '-']


def test_dry_run_lists_commands_and_what_is_missing(table, tmp_path):
    out = table(tmp_path, '--tasks', 'sst2', '--rows', 'real', '--dry-run')
    assert 'bert_base_sst2: cannot run\n  ENCODER=bert_base TASK=sst2 python ' in out and 'train.py' in out
    assert 'missing for bert_base_sst2: no rows at data/glue/SST-2/train.tsv' in out
    write_glue(tmp_path / 'data/glue', rows=8)
    out = table(tmp_path, '--tasks', 'sst2', '--rows', 'real', '--dry-run')
    assert 'missing for bert_base_sst2: no encoder at data/bert_base_uncased (model.encoder). Get it' in out
    tiny_encoder(tmp_path / 'data/bert_base_uncased')
    out = table(tmp_path, '--tasks', 'sst2', '--rows', 'bit', '--dry-run')
    names = [line.split(':')[0] for line in out.splitlines() if line.endswith(': to run')]
    assert names == [
        'bert_base_sst2',
        'bert_base_bit_w1a2_sst2',
        'bert_base_bit_sst2',
    ]  # each starts from the one before
    assert 'missing' not in out
    assert not (tmp_path / 'work_dirs').exists()


def test_missing_input_is_reported_and_the_table_printed(table, tmp_path):
    out = table(tmp_path, '--tasks', 'sst2', '--rows', 'real', expect=1)
    assert 'not done: bert_base_sst2: no rows at' in out
    assert cells(out, 'Real-valued')[3:] == ['-', '-']
    (line,) = [line for line in out.splitlines() if 'the paper' in line]
    assert [cell.strip() for cell in line.strip('│').split('│')] == ['', '', 'the paper', '93.2', '93.2']


@pytest.mark.slow
def test_parts_of_the_development_set_are_named(table, finished):
    folder, _ = finished
    shutil.copy(folder / 'data/glue/RTE/dev.tsv', folder / 'data/glue/RTE/dev_sub.tsv')
    option = 'test_dataloader.dataset.ann_file=RTE/dev_sub.tsv'
    out = table(folder, *ONE, '--collect', '--cfg-options', option, 'train_cfg.max_iters=2')
    assert "Not GLUE's development sets, but parts or others: minilm_rte." in out


def test_the_papers_numbers_are_whole_and_their_averages_as_printed():
    assert PAPER.keys() == set(ROWS)
    averages = dict(real=83.9, q2bert=47.7, ternarybert=45.5, binarybert=41.0, bibert=63.2, rebnn=65.8)
    for row, printed in averages.items():
        mean = sum(PAPER[row][column.key] for column in COLUMNS) / len(COLUMNS)
        assert mean == pytest.approx(printed, abs=0.1), row
