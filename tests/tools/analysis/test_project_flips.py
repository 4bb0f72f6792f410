import json
from pathlib import Path

import pytest

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

TOOL = 'tools/analysis/project_flips.py'
CIFAR10 = 'configs/cifar10/resnet20_rebnn_cifar10.py'
SMALL = ('--cfg-options', 'model.backbone.base_channels=4', 'model.head.in_channels=16')


def test_a_table_a_page_and_a_file_of_several_calls(run_tool, tmp_path):
    kept, page = tmp_path / 'flips.json', tmp_path / 'new' / 'flips.md'
    few = '--steps', 4, '--batch-size', 4, '--data', 'sample', '--json', kept, '--markdown', page
    done = run_tool(TOOL, CIFAR10, 'configs/cifar10/resnet20_cifar10.py', *few, '--label', 'as shipped', *SMALL)
    assert done.returncode == 0, done.stderr
    assert 'configs/cifar10/resnet20_cifar10.py: no binary weight is trained.' in done.stderr
    assert f'{CIFAR10}: signs flip ' in done.stdout and ' over the whole schedule (least backbone.layer' in done.stdout
    assert f'{page}: 1 rows' in done.stdout

    slower = *SMALL, 'optim_wrapper.optimizer.lr=1e-6'
    done = run_tool(TOOL, CIFAR10, *few, '--label', 'slower', *slower)
    assert done.returncode == 0, done.stderr
    assert 'cannot suffice' in done.stdout and 'latent_weight=dict(lr_mult=' in done.stdout
    assert [row['label'] for row in json.loads(kept.read_text())] == ['as shipped', 'slower']
    assert '| as shipped | slower |' in page.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['flips.json', 'new']


def test_a_detector_on_the_sample(run_tool, tmp_path):
    done = run_tool(
        TOOL, 'configs/faster_rcnn_r18_rebnn_coco.py', '--steps', 4, '--batch-size', 1, '--image-size', 96,
        '--json', tmp_path / 'flips.json', '--cfg-options', 'model.backbone.init_cfg=None',
        'model.roi_head.shared_head.init_cfg=None', 'model.train_cfg.rcnn.sampler.num=16',
        'model.train_cfg.rpn_proposal.max_per_img=50', 'model.rpn_head.feat_channels=64',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / 'flips.json').read_text())
    assert row['schedule']['steps'] == 12 * 14659  # of 8 images of COCO each
    assert 'images of at most 96 pixels' in row['notes'] and 'COCO train2017' in row['data']


@pytest.mark.parametrize(
    ('args', 'message'),
    [
        (['configs/no_such_config.py'], 'no config file at configs/no_such_config.py.'),
        ([CIFAR10, '--steps', 2], '--steps must be at least 4'),
        ([CIFAR10, '--steps', 4, '--from', 'nowhere.pth'], 'no checkpoint can be read from nowhere.pth'),
        (['configs/cifar10/resnet20_cifar10.py', '--steps', 4, '--data', 'sample'], 'no binary weight is trained'),
    ],
)
def test_errors_are_one_sentence(args, message, run_tool):
    done = run_tool(TOOL, *args)
    assert done.returncode == 1
    assert message in done.stderr and 'Traceback' not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_file_of_another_tool_is_left_alone(run_tool, tmp_path):
    other = tmp_path / 'flips.json'
    other.write_text('{}')
    done = run_tool(TOOL, CIFAR10, '--json', other)
    assert done.returncode == 1 and 'holds no results of this tool' in done.stderr
    assert Path(other).read_text() == '{}'
