import json
from pathlib import Path

import pytest
from mmengine.config import Config

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from lab.tools import flips
from lab.tools.flips import flip_table, name_choices, read_rows, rows_json, with_row
from lab.tools.stand_in_data import with_weights_at_hand
from tests.lab.flip_rows import row
from tests.scripts import run_main

CIFAR10 = 'configs/cifar10/resnet20.py'
ROOT = Path(__file__).parents[3]
SMALL = ('--cfg-options', 'model.backbone.base_channels=4', 'model.head.in_channels=16')


@pytest.fixture
def project(monkeypatch, capfd):
    """``project('config', '--flag')`` gives the exit code, stdout and stderr of the tool."""
    monkeypatch.chdir(ROOT)
    return lambda *args: (run_main(flips.main, *args), *capfd.readouterr())


def test_a_config_is_named_with_what_variables_choose(tmp_path, monkeypatch):
    (tmp_path / 'rte.py').touch()
    (tmp_path / 'row.py').write_text("_base_ = './{{$TASK:rte}}.py'\n")
    (tmp_path / 'mine.py').write_text("_base_ = './row.py'\nwork_dir = '{{$ENCODER:small}}'\n")
    for name, value in dict(ENCODER='small', TASK='sst2').items():
        monkeypatch.setenv(name, value)
    assert name_choices(tmp_path / 'mine.py') == f'TASK=sst2 {tmp_path}/mine.py'


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
    def measured(config, args, progress):
        if 'resnet18' in config:
            raise KeyboardInterrupt
        return dict(
            config=config, label='', optimizer='SGD', schedule=dict(steps=9, highest=1.0, mean=1.0), steps=4, notes=[],
            batch_size=4, data='sample', percent=9.0, step_percent=1.0, least='conv', least_percent=1.0, verdict='few',
        )  # fmt: skip

    monkeypatch.setattr(flips, 'measure_row', measured)
    kept = tmp_path / 'flips.json'
    code, out, err = project(CIFAR10, 'configs/cifar10/resnet18.py', CIFAR10, '--json', kept)
    assert code == 130 and 'Traceback' not in err
    assert err.strip() == 'stopped in configs/cifar10/resnet18.py; what was finished before is kept.'
    assert len(json.loads(kept.read_text())) == 1 and f'{CIFAR10}: few.' in out


def test_the_file_of_another_tool_is_left_alone(project, tmp_path):
    other = tmp_path / 'flips.json'
    other.write_text('{}')
    code, _, err = project(CIFAR10, '--json', other)
    assert code == 1 and 'holds no results of this tool' in err
    assert other.read_text() == '{}'


def test_items_stand_in_for_a_data_set_of_whole_batches(project, tmp_path):
    config = 'configs/cifar10/own/resnet20_rebnn_100e_cifar10.py'
    code, _, err = project(config, '--steps', 4, '--batch-size', 4, '--json', tmp_path / 'flips.json', *SMALL)
    assert code == 0, err
    (row,) = json.loads((tmp_path / 'flips.json').read_text())
    assert row['schedule']['steps'] == 100 * 391 and 'objects cut out' in row['data'] and '50,000' in row['data']


def test_a_teacher_that_is_not_here_is_a_random_one(tmp_path):
    cfg = Config.fromfile(ROOT / 'configs/cifar10/resnet20_two_stage.py')
    assert with_weights_at_hand(cfg, tmp_path) == [
        'random start, because work_dirs/resnet20_react_stage1_cifar10/epoch_200.pth is not here',
        'random teacher, because work_dirs/resnet20_plain.pth is not here',
    ]
    assert cfg.model.teacher.init_cfg.type == 'Kaiming' and cfg.load_from is None


def test_results_of_several_calls_are_kept(tmp_path):
    file = tmp_path / 'flips.json'
    rows = [row('a.py', 20), row('b.py', 150)]
    file.write_text(rows_json(rows))
    assert read_rows(file) == rows
    again = with_row(read_rows(file), row('a.py', 30))
    assert [(entry['config'], entry['percent']) for entry in again] == [('a.py', 30), ('b.py', 150)]
    assert len(with_row(again, row('a.py', 300, 'corrected'))) == 3
    assert read_rows(tmp_path / 'none.json') == []


@pytest.mark.parametrize('text', ['{}', '{"a": 1}', 'no json', '[{"config": "a.py"}]'])
def test_another_file_is_one_sentence(tmp_path, text):
    (tmp_path / 'other.json').write_text(text)
    with pytest.raises(ValueError, match='holds no results of this tool'):
        read_rows(tmp_path / 'other.json')


def test_the_table_for_the_terminal():
    text = flip_table([row('configs/a.py', 20)])
    assert text.splitlines()[0].startswith('config  label')
    assert '\nMETHOD=bnn a ' in flip_table([row('METHOD=bnn configs/a.py', 20)])
    assert 'configs/a.py: signs flip 20 %.\n  40 steps of 8 on demo/coco_sample; batch 8 in place of 32\n' in text
