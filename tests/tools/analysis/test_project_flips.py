import importlib
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

TOOL = 'rebnn flips'
CIFAR10 = 'configs/cifar10/resnet20.py'
ROOT = Path(__file__).parents[3]
SMALL = ('--cfg-options', 'model.backbone.base_channels=4', 'model.head.in_channels=16')


@pytest.fixture
def project(monkeypatch, capfd):
    """``project('config', '--flag')`` gives the exit code, stdout and stderr of the tool."""
    module = importlib.import_module('rebnn_mm.cli.flips')
    monkeypatch.chdir(ROOT)

    def run(*args):
        monkeypatch.setattr(sys, 'argv', [TOOL, *map(str, args)])
        code = 0
        try:
            module.main()
        except SystemExit as end:
            code = end.code
        return code, *capfd.readouterr()

    run.module = module
    return run


def test_a_table_and_a_file_of_several_calls(project, tmp_path):
    kept = tmp_path / 'new' / 'flips.json'
    few = '--steps', 8, '--batch-size', 4, '--data', 'sample', '--json', kept
    code, out, err = project(CIFAR10, 'configs/cifar10/resnet20_real.py', *few, '--label', 'as shipped', *SMALL)
    assert code == 0, err
    assert 'configs/cifar10/resnet20_real.py: no binary weight is trained.' in err
    assert f'{CIFAR10}: signs flip ' in out and ' over the whole schedule (least backbone.layer' in out

    code, out, err = project(CIFAR10, *few, '--label', 'slower', *SMALL, 'optim_wrapper.optimizer.lr=1e-9')
    assert code == 0, err
    assert 'cannot suffice' in out and 'latent_weight=dict(lr_mult=' in out
    rows = json.loads(kept.read_text())
    assert [row['label'] for row in rows] == ['as shipped', 'slower']
    assert 'optim_wrapper.optimizer.lr=1e-09' in rows[1]['notes']
    assert [path.name for path in kept.parent.iterdir()] == ['flips.json']


def test_an_optimizer_with_a_rate_of_its_own(project, tmp_path):
    few = '--steps', 4, '--batch-size', 4, '--data', 'sample', '--json', tmp_path / 'flips.json', *SMALL
    own = 'optim_wrapper.optimizer._delete_=True', 'optim_wrapper.optimizer.type=Adam'
    code, _, err = project(CIFAR10, *few, *own, 'optim_wrapper.paramwise_cfg._delete_=True')
    assert code == 0, err
    (row,) = json.loads((tmp_path / 'flips.json').read_text())
    assert row['optimizer'] == 'Adam'


def test_a_detector_on_the_sample(project, tmp_path):
    code, _, err = project(
        'configs/coco/faster_rcnn_r18_rebnn_coco.py', '--steps', 4, '--batch-size', 1, '--image-size', 96,
        '--json', tmp_path / 'flips.json', '--cfg-options', 'model.backbone.init_cfg=None',
        'model.roi_head.shared_head.init_cfg=None', 'model.train_cfg.rcnn.sampler.num=16',
        'model.train_cfg.rpn_proposal.max_per_img=50', 'model.rpn_head.feat_channels=64',
    )  # fmt: skip
    assert code == 0, err
    (row,) = json.loads((tmp_path / 'flips.json').read_text())
    assert row['schedule']['steps'] == 12 * 14659  # of 8 images of COCO each
    assert 'images of at most 96 pixels' in row['notes'] and 'COCO train2017' in row['data']


def test_ctrl_c_keeps_what_is_finished(project, monkeypatch, tmp_path):
    def row(config, args, progress):
        if 'resnet18' in config:
            raise KeyboardInterrupt
        return dict(
            config=config, label='', optimizer='SGD', schedule=dict(steps=9, highest=1.0, mean=1.0), steps=4, notes=[],
            batch_size=4, data='sample', percent=9.0, step_percent=1.0, least='conv', least_percent=1.0, verdict='few',
        )  # fmt: skip

    monkeypatch.setattr(project.module, 'measure_row', row)
    kept = tmp_path / 'flips.json'
    code, out, err = project(CIFAR10, 'configs/cifar10/resnet18.py', CIFAR10, '--json', kept)
    assert code == 130 and 'Traceback' not in err
    assert err.strip() == 'stopped in configs/cifar10/resnet18.py; what was finished before is kept.'
    assert len(json.loads(kept.read_text())) == 1 and f'{CIFAR10}: few.' in out


@pytest.mark.parametrize(
    ('args', 'message'),
    [
        (['configs/no_such_config.py'], 'no config file at configs/no_such_config.py.'),
        ([CIFAR10, '--steps', 2], '--steps must be at least 4'),
        ([CIFAR10, '--json', 'tests'], 'cannot write to tests: it is a folder'),
        ([CIFAR10, '--cfg-options', 'modle.x=1'], "the config has no 'modle'. Did you mean 'model'"),
        ([CIFAR10, '--cfg-options', 'model.type=ImgeClassifier'], "type='ImgeClassifier' is not registered"),
        ([CIFAR10, '--steps', 4, '--from', 'nowhere.pth'], 'no checkpoint can be read from nowhere.pth'),
        (['configs/cifar10/resnet20_real.py', '--steps', 4, '--data', 'sample'], 'no binary weight is trained'),
    ],
)
def test_errors_are_one_sentence(args, message, project):
    code, _, err = project(*args)
    assert code == 1
    assert message in err and 'Traceback' not in err
    assert len(err.strip().splitlines()) == 1


def test_the_file_of_another_tool_is_left_alone(project, tmp_path):
    other = tmp_path / 'flips.json'
    other.write_text('{}')
    code, _, err = project(CIFAR10, '--json', other)
    assert code == 1 and 'holds no results of this tool' in err
    assert other.read_text() == '{}'
