from pathlib import Path

import pytest

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from rebnn_mm.cli import flips
from tests.scripts import run_main

CIFAR10 = 'configs/cifar10/resnet20.py'
ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(monkeypatch, capfd):
    """``project('config', '--flag')`` gives the exit code, stdout and stderr of the tool."""
    monkeypatch.chdir(ROOT)
    return lambda *args: (run_main(flips.main, *args), *capfd.readouterr())


@pytest.fixture
def config(tmp_path):
    """A small network on eight images of the sample, as a user's own config has them."""
    (tmp_path / 'mine.py').write_text(f"""_base_ = ['{ROOT}/configs/one_bit/nano_bccd.py']
train_dataloader = dict(batch_size=2, dataset=dict(
    _delete_=True, type='CocoDataset', data_root='{ROOT}/demo/coco_sample', data_prefix=dict(img='train2017'),
    ann_file='annotations/instances_train2017.json', indices=8,
    pipeline=[dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True),
              dict(type='Resize', scale=(96, 96)), dict(type='PackDetInputs')]))
model = dict(bbox_head=dict(num_classes=80))
""")
    return tmp_path / 'mine.py'


def test_says_what_the_whole_schedule_comes_to(project, config):
    code, out, err = project(config, '--steps', 4, '--batch-size', 1)
    assert code == 0, err
    first, second, third = out.splitlines()
    assert first.startswith(f'{config}: signs flip ') and 'over the whole schedule (least ' in first
    assert second.startswith('  ') and 'steps of the schedule count as' in second
    assert third == '  Measured in 4 steps of 1; batch 1 in place of 2.'


@pytest.mark.parametrize(
    ('args', 'message'),
    [
        (['configs/no_such_config.py'], 'no config file at configs/no_such_config.py.'),
        ([CIFAR10, '--steps', 2], '--steps must be at least 4'),
        ([CIFAR10, '--steps', 4, '--cfg-options', 'train_dataloader.dataset.data_root=nowhere'], 'nowhere'),
    ],
)
def test_errors_are_one_sentence(args, message, project):
    code, _, err = project(*args)
    assert message in f'{code}{err}' and 'Traceback' not in err
    assert len(f'{code}{err}'.strip().splitlines()) == 1
