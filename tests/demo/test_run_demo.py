import json
from pathlib import Path

import pytest

from tests.scripts import run_script

# Up to seven processes that import everything; each is tested by itself in tests/tools.
pytestmark = pytest.mark.slow


def demo(tmp_path_factory, *arguments):
    pytest.importorskip('mmcv._ext', reason='mmdet needs the compiled ops of mmcv')
    work_dir = tmp_path_factory.mktemp('demo') / 'work'
    return run_script('demo/run_demo.py', '--work-dir', work_dir, *arguments), work_dir


@pytest.fixture(scope='module')
def coco(tmp_path_factory):
    """The demo of the COCO sample with two iterations in place of its hundreds, and its work dir."""
    options = ['train_cfg.max_iters=2', 'train_cfg.val_interval=2', 'default_hooks.logger.interval=1']
    return demo(tmp_path_factory, '--data', 'coco', '--cfg-options', *options)


@pytest.fixture(scope='module')
def blood_cells(tmp_path_factory):
    """The demo of the blood cells with four training images and one epoch, scored on two images."""
    options = [
        'train_cfg.max_epochs=1',
        'train_dataloader.dataset.indices=4',
        'val_dataloader.dataset.indices=2',
        'default_hooks.logger.interval=1',
        'default_hooks.checkpoint.interval=1',
    ]
    return demo(tmp_path_factory, '--cfg-options', *options)


@pytest.mark.parametrize(
    ('name', 'files'),
    [
        ('coco', {'checkpoint': 'iter_2.pth', 'curves': 'curves.png', 'boxes drawn': 'detections.jpg'}),
        (
            'blood_cells',
            {'checkpoint': 'epoch_1.pth', 'packed file': 'blood_cells.onnx', 'picture': 'blood_cells.png'},
        ),
    ],
)
def test_ends_with_the_table_and_where_everything_is(name, files, request):
    done, work_dir = request.getfixturevalue(name)
    assert done.returncode == 0, done.stderr[-2000:]
    summary = done.stdout[done.stdout.rindex('$ rebnn curves') :]
    for word, file in files.items():
        (line,) = [line for line in summary.splitlines() if line.startswith(f'{word} ')]
        assert line.endswith(file)
        assert (work_dir / file).stat().st_size > 1000
    (line,) = [line for line in summary.splitlines() if line.startswith('log ')]
    assert '$ rebnn test' not in line and Path(line.split()[-1]).is_file()


def test_blood_cells_are_set_beside_trained_files_and_their_rival(blood_cells):
    done, work_dir = blood_cells
    shown = done.stdout[done.stdout.index('72 photographs') :]
    rows = [line.strip('│ ').split('│') for line in shown.splitlines() if line.startswith('│')]
    table = {label.strip(): [float(cell) for cell in cells] for label, *cells in rows}
    assert list(table) == [
        'this one, in PyTorch',
        'this one, packed',
        'zoo:blood-cells-tiny *',
        'zoo:blood-cells-nano *',
        'zoo:blood-cells *',
        'YOLOX-tiny, fp32 *',
        'YOLOX-tiny, int8 *',
        'YOLOX-nano, fp32 *',
        'YOLOX-nano, int8 *',
    ]
    assert all(ap > 45 for ap, *_ in list(table.values())[2:]) and table['this one, packed'][0] < 5
    scores = json.loads((work_dir / 'compared.json').read_text())['points']
    assert [round(point['megabytes'], 1) for point in scores] == [table[point['label']][2] for point in scores]


def test_coco_scores_the_training_images_and_the_unseen_ones(coco):
    done, work_dir = coco
    logs = {
        name: next(work_dir.glob(f'{name}/*/*.log')).read_text()
        for name in ('test_training_images', 'test_unseen_images')
    }
    assert 'Epoch(test) [8/8]' in logs['test_training_images'] or 'Iter(test) [8/8]' in logs['test_training_images']
    assert '[16/16]' in logs['test_unseen_images']
    assert '8 training images' in done.stdout or 'Nothing was detected' in done.stdout


def test_never_writes_into_an_old_folder(coco):
    work_dir = coco[1]
    before = {path: path.stat().st_mtime_ns for path in work_dir.rglob('*')}
    done = run_script('demo/run_demo.py', '--work-dir', work_dir)
    assert done.returncode == 1 and done.stderr.startswith('demo/run_demo.py: ') and 'exists already' in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in work_dir.rglob('*')}
