from pathlib import Path

import pytest

from tests.scripts import run_script

# Five processes that import everything; each is tested by itself in tests/tools.
pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """The demo with two iterations in place of its hundreds, and its work dir."""
    pytest.importorskip('mmcv._ext', reason='mmdet needs the compiled ops of mmcv')
    work_dir = tmp_path_factory.mktemp('demo') / 'work'
    options = ['train_cfg.max_iters=2', 'train_cfg.val_interval=2', 'default_hooks.logger.interval=1']
    return run_script('demo/run_demo.py', '--work-dir', work_dir, '--cfg-options', *options), work_dir


def test_ends_with_the_table_and_where_everything_is(finished):
    done, work_dir = finished
    assert done.returncode == 0, done.stderr[-2000:]
    summary = done.stdout[done.stdout.rindex('$ python tools/analysis/plot_curves.py') :]
    for word, name in [('checkpoint', 'iter_2.pth'), ('curves', 'curves.png'), ('boxes drawn', 'detections.jpg')]:
        (line,) = [line for line in summary.splitlines() if line.startswith(f'{word} ')]
        assert line.endswith(name)
        assert (work_dir / name).stat().st_size > 1000
    (line,) = [line for line in summary.splitlines() if line.startswith('log ')]
    assert '$ python tools/test.py' not in line and Path(line.split()[-1]).is_file()
    assert '8 training images' in summary or 'Nothing was detected' in summary


def test_scores_the_training_images_and_the_unseen_ones(finished):
    work_dir = finished[1]
    logs = {
        name: next(work_dir.glob(f'{name}/*/*.log')).read_text()
        for name in ('test_training_images', 'test_unseen_images')
    }
    assert 'Epoch(test) [8/8]' in logs['test_training_images'] or 'Iter(test) [8/8]' in logs['test_training_images']
    assert '[16/16]' in logs['test_unseen_images']


def test_never_writes_into_an_old_folder(finished):
    work_dir = finished[1]
    before = {path: path.stat().st_mtime_ns for path in work_dir.rglob('*')}
    done = run_script('demo/run_demo.py', '--work-dir', work_dir)
    assert done.returncode == 1 and 'exists already' in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in work_dir.rglob('*')}
