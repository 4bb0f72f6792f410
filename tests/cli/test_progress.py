"""What a training shows in its lines; tests/tools/test_train_tool.py looks at the command."""

import io
import re
import sys
import warnings

import pytest
from mmengine.hooks import EarlyStoppingHook, Hook
from rich.console import Console

from rebnn_mm.cli import progress as shown
from rebnn_mm.cli.progress import ProgressHook, QuietRunner, count, losses_of
from tests.engine.small_runner import SmallClassifier, StopAfter, log_text, runner_config


def lines_of(work_dir, monkeypatch, hooks=(), terminal=False, **options):
    """What a training of two epochs of four steps prints."""
    out = io.StringIO()
    monkeypatch.setattr(sys, 'stdout', out)
    runner = QuietRunner(model=SmallClassifier(), **runner_config(work_dir, **options))
    progress = ProgressHook(Console(file=out, force_terminal=terminal, width=200) if terminal else runner.console)
    for hook in (progress, *hooks):
        runner.register_hook(hook)
    with runner.quiet(), progress.bar:
        runner.train()
    return out.getvalue().splitlines(), runner


def test_a_line_for_each_epoch_has_its_mean_loss(tmp_path, monkeypatch):
    lines, runner = lines_of(tmp_path / 'run', monkeypatch)
    rows = [line for line in lines if line.startswith('epoch')]
    assert [re.split('  +', row)[0] for row in rows] == ['epoch 1/2', 'epoch 2/2']
    history = runner.message_hub.get_scalar('train/loss').data[0]
    assert f'  loss {history[:4].mean():.3f}  ' in rows[0] and f'  loss {history[4:].mean():.3f}  ' in rows[1]
    assert losses_of(runner, 4) == {'loss': pytest.approx(history[4:].mean())}


def test_the_rest_is_in_the_log_and_warnings_are_in_both(tmp_path, monkeypatch):
    lines, _ = lines_of(tmp_path / 'run', monkeypatch, constructor=False)
    log = log_text(tmp_path / 'run')
    assert 'Epoch(train) [2][4/4]' in log and 'rebnn/flips_per_million: ' in log and 'bits W/A' in log
    assert not any(word in '\n'.join(lines) for word in ('Epoch(train)', 'rebnn/', 'bits W/A'))
    (warning,) = (line for line in lines if line.startswith('warning: ReBNNHook: '))
    assert warning.removeprefix('warning: ') in log
    # what is trained on what comes first
    assert lines.index(warning) > next(n for n, line in enumerate(lines) if line.startswith('log  '))


def test_a_terminal_has_a_bar_of_each_epoch_with_the_time_left(tmp_path, monkeypatch):
    lines, _ = lines_of(tmp_path / 'run', monkeypatch, terminal=True)
    assert re.search(r'epoch 2/2 .*4/4.* loss \d', '\n'.join(lines))


def test_without_a_terminal_a_long_epoch_has_lines_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(shown, 'PLAIN_SECONDS', 0)
    lines, _ = lines_of(tmp_path / 'run', monkeypatch)
    assert sum(line.startswith('epoch 2/2, step ') for line in lines) == 3


def test_an_early_end_is_said(tmp_path, monkeypatch):
    lines, _ = lines_of(tmp_path / 'run', monkeypatch, hooks=[StopAfter(1)])
    assert lines[-1] == 'stopped after 1 of 2 epochs'
    stop = EarlyStoppingHook('accuracy')
    lines, _ = lines_of(tmp_path / 'other', monkeypatch, hooks=[StopAfter(1), stop])
    assert lines[-1] == 'stopped after 1 of 2 epochs: the score did not rise any more'


def test_a_run_that_is_finished_says_so(tmp_path, monkeypatch):
    lines_of(tmp_path / 'run', monkeypatch)
    lines, runner = lines_of(tmp_path / 'run', monkeypatch, resume=True, experiment_name='again')
    assert lines[-1] == 'already finished, 2 of 2 epochs' and runner.iter == 8


@pytest.mark.parametrize(
    'text', ['torch.meshgrid: in an upcoming release, it ...', 'Skip early stopping process since']
)
def test_warnings_of_libraries_that_help_nobody_are_not_shown(text, tmp_path, monkeypatch):
    class Warns(Hook):
        def before_train(self, runner):
            warnings.warn(text, stacklevel=1)
            warnings.warn('another', stacklevel=1)

    with pytest.warns() as seen:
        lines_of(tmp_path / 'run', monkeypatch, hooks=[Warns()])
    assert [str(one.message) for one in seen if str(one.message) in (text, 'another')] == ['another']


def test_a_warning_after_a_run_whose_output_is_closed_does_no_harm(tmp_path, monkeypatch):
    _, runner = lines_of(tmp_path / 'run', monkeypatch)
    runner.logger.warning('one')
    sys.stdout.close()
    runner.logger.warning('another')
    assert 'another' in log_text(tmp_path / 'run')


def test_numbers_have_plurals():
    assert [count(1, 'epoch'), count(1200, 'step'), count(0, 'step')] == ['1 epoch', '1,200 steps', '0 steps']


def test_a_second_run_of_a_process_logs_to_its_own_folder(tmp_path, monkeypatch):
    for name in ('one', 'other'):
        visualizer = dict(type='Visualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')])
        lines_of(tmp_path / name, monkeypatch, visualizer=visualizer)
        assert len(list((tmp_path / name).glob('*/vis_data/scalars.json'))) == 1


def test_a_pretrained_backbone_is_named(tmp_path, monkeypatch):
    start = dict(type='Pretrained', checkpoint='one.pth')
    lines, _ = lines_of(tmp_path, monkeypatch, cfg=dict(model=dict(backbone=dict(init_cfg=start))))
    assert 'start      one.pth for the backbone' in lines


def test_a_student_that_starts_from_its_teacher_says_so(tmp_path, monkeypatch):
    assert 'start      random weights, except where init_cfg is set' in lines_of(tmp_path / 'alone', monkeypatch)[0]
    monkeypatch.setattr(SmallClassifier, 'start_from_teacher', True, raising=False)
    assert 'start      the teacher' in lines_of(tmp_path / 'taught', monkeypatch)[0]
