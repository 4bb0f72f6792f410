"""Runs the tools the way a user does: as processes, from the repository root, on the shipped sample."""

import subprocess
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
from mmengine.logging import MMLogger
from mmengine.registry import DefaultScope

from tests.scripts import ROOT, run_here, run_script

Run = Callable[..., subprocess.CompletedProcess]

# A narrow stock detector of mmdet on four tiny images: the tools are tested here, not the method.
DETECTOR = """
_base_ = 'mmdet::retinanet/retinanet_r18_fpn_1x_coco.py'
root = {root!r}
small = dict(type='Resize', scale=(128, 96), keep_ratio=True)
boxes = dict(type='LoadAnnotations', with_bbox=True)
keys = ('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')
model = dict(
    backbone=dict(base_channels=8, init_cfg=None, frozen_stages=-1),
    neck=dict(in_channels=[8, 16, 32, 64], out_channels=16),
    bbox_head=dict(in_channels=16, feat_channels=16, stacked_convs=1),
    test_cfg=dict(score_thr=0.0, nms_pre=20),
)
train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        data_root=root,
        indices=4,
        pipeline=[dict(type='LoadImageFromFile'), boxes, small, dict(type='PackDetInputs')],
    ),
)
val_dataloader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        data_root=root,
        indices=2,
        pipeline=[dict(type='LoadImageFromFile'), small, boxes, dict(type='PackDetInputs', meta_keys=keys)],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=root + 'annotations/instances_val2017.json')
test_evaluator = val_evaluator
train_cfg = dict(max_epochs=1)
default_hooks = dict(logger=dict(interval=1))
"""

# A narrow stock classifier of mmpretrain on a folder with one sub-folder per class.
CLASSIFIER = """
_base_ = 'mmpretrain::resnet/resnet18_8xb16_cifar10.py'
model = dict(backbone=dict(stem_channels=8, base_channels=8), head=dict(in_channels=64))
pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(32, 32)),
    dict(type='PackInputs'),
]
loader = dict(
    _delete_=True,
    batch_size=4,
    num_workers=0,
    dataset=dict(type='CustomDataset', data_prefix={folder!r}, pipeline=pipeline),
    sampler=dict(type='DefaultSampler', shuffle=True),
)
train_dataloader = loader
val_dataloader = loader
test_dataloader = loader
train_cfg = dict(max_epochs=1)
default_hooks = dict(logger=dict(interval=1))
"""


@pytest.fixture(scope='session')
def run_tool() -> Run:
    """``run_tool('tools/x.py', '--flag')`` gives the finished process with its text output."""
    return run_script


@pytest.fixture
def stop_tool(monkeypatch, capsys) -> Callable[..., str]:
    """``stop_tool('tools/x.py', '--flag')`` gives the one sentence with which the tool, run in this process, stops."""
    monkeypatch.setenv('LOCAL_RANK', '0')  # which the tool would set, and leave
    for manager in (DefaultScope, MMLogger):  # a logger would go on writing to the output of this test
        monkeypatch.setattr(manager, '_instance_dict', OrderedDict())

    def run(script: str, *args: object) -> str:
        with pytest.raises(SystemExit) as stopped:
            run_here(script, *args)
        assert stopped.value.code == 1
        (line,) = [line for line in capsys.readouterr().err.splitlines() if f'{script}: ' in line]
        return line.partition(f'{script}: ')[2]

    return run


@pytest.fixture(scope='session')
def detector_config(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp('detector') / 'tiny_detector.py'
    path.write_text(DETECTOR.format(root=f'{ROOT}/demo/coco_sample/'))
    return path


@pytest.fixture(scope='session')
def classifier_config(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp('classifier')
    images = sorted((ROOT / 'demo/coco_sample/val2017').iterdir())
    for label, files in (('even', images[:8:2]), ('odd', images[1:8:2])):
        (folder / 'images' / label).mkdir(parents=True)
        for file in files:
            (folder / 'images' / label / file.name).symlink_to(file)
    path = folder / 'tiny_classifier.py'
    path.write_text(CLASSIFIER.format(folder=str(folder / 'images')))
    return path


@pytest.fixture(scope='session')
def trained_detector(detector_config) -> tuple[subprocess.CompletedProcess, Path]:
    """The finished training run of the tiny detector, and its work dir."""
    work_dir = detector_config.parent / 'work'
    return run_script('tools/train.py', detector_config, '--work-dir', work_dir), work_dir
