"""The one-stage 1-bit detectors: what is binary, what a file holds, and that it answers as PyTorch does."""

import numpy as np
import pytest
import torch
from mmdet.structures import DetDataSample
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from mmengine.runner import save_checkpoint
from mmengine.structures import InstanceData
from torch import nn

import rebnn_mm
from rebnn_mm.deploy import load
from rebnn_mm.engine import ResilientGradient
from rebnn_mm.layers import BinaryLayer
from rebnn_mm.registry import MODELS
from tests.scripts import ROOT

FOLDER = ROOT / 'configs' / 'one_bit'
MEGABYTES = {'small': 2.0, 'tiny': 1.2, 'nano': 0.8}
"""What a file with the rest in int8 may have: the project's goals."""

LITTLE = dict(
    backbone=dict(channels=(8, 16, 16, 16), depths=(1, 1, 1, 1)),
    neck=dict(in_channels=[16, 16, 16], out_channels=16),
    bbox_head=dict(in_channels=16, feat_channels=16, stacked_convs=1),
)
"""Options that leave little of a network, for quick tests."""


def read(name, **options):
    cfg = Config.fromfile(FOLDER / f'{name}_bccd.py')
    cfg.merge_from_dict({'model': options})
    return cfg


def build(name, **options):
    cfg = read(name, **options)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(cfg.model)
        model.init_weights()
    return model


@pytest.mark.parametrize('name', MEGABYTES)
def test_every_3x3_convolution_but_the_stem_is_binary(name):
    model = build(name)
    convs = {key: layer for key, layer in model.named_modules() if isinstance(layer, nn.Conv2d)}
    real = {key for key, layer in convs.items() if not (isinstance(layer, BinaryLayer) and layer.binary)}
    assert all('stem' in key or convs[key].kernel_size == (1, 1) for key in real)
    bits = sum(layer.weight.numel() for key, layer in convs.items() if key not in real) / 8
    rest = sum(p.numel() * (4 if 'stem' in key else 1) for key in real for p in convs[key].parameters())
    assert (bits + rest) / 1e6 < MEGABYTES[name]


def test_teacher_and_student_of_photographs_see_the_same():
    student, teacher = (Config.fromfile(FOLDER / f'tiny_{kind}_voc6.py') for kind in ('taught', 'teacher'))
    assert student.model.teacher == 'configs/one_bit/tiny_teacher_voc6.py'
    assert student.model.teacher_checkpoint == f'work_dirs/tiny_teacher_voc6/epoch_{teacher.train_cfg.max_epochs}.pth'
    for key in (
        'train_dataloader',
        'val_dataloader',
        'test_dataloader',
        'test_evaluator',
        'train_cfg',
        'param_scheduler',
    ):
        assert student[key] == teacher[key]
    data = student.test_dataloader.dataset
    assert student.model.bbox_head.num_classes == teacher.model.bbox_head.num_classes == len(data.metainfo.classes)
    assert student.test_evaluator.ann_file == data.data_root + data.ann_file
    with DefaultScope.overwrite_default_scope('mmdet'):
        assert not any(isinstance(layer, BinaryLayer) for layer in MODELS.build(teacher.model).modules())


def losses_of(model):
    size = (64, 160)  # two places at the largest stride, which batch norm needs of one image
    sample = DetDataSample(metainfo=dict.fromkeys(('img_shape', 'pad_shape', 'batch_input_shape'), size))
    sample.gt_instances = InstanceData(bboxes=torch.tensor([[8.0, 8.0, 40.0, 40.0]]), labels=torch.tensor([1]))
    return model.loss(torch.randn(1, 3, *size), [sample])


@pytest.mark.parametrize('name', MEGABYTES)
def test_a_student_starts_from_its_teacher_and_learns(name, tmp_path):
    assert read(f'{name}_taught').model.teacher == f'configs/one_bit/{name}_teacher_bccd.py'
    assert not read(f'{name}_teacher').custom_hooks  # those of binary layers would warn that there are none
    read(f'{name}_teacher', **LITTLE).dump(tmp_path / 'teacher.py')
    theirs = build(f'{name}_teacher', **LITTLE)
    assert not any(isinstance(layer, BinaryLayer) for layer in theirs.modules())
    save_checkpoint(dict(state_dict=theirs.state_dict()), str(tmp_path / 'teacher.pth'))
    taught = dict(teacher=str(tmp_path / 'teacher.py'), teacher_checkpoint=str(tmp_path / 'teacher.pth'))
    model = build(f'{name}_taught', **LITTLE, **taught).train()
    state = model.state_dict()
    assert all(torch.equal(state[key], value) for key, value in theirs.state_dict().items())
    losses = losses_of(model)
    assert losses.keys() >= {'loss_dense_scores', 'loss_dense_boxes', 'loss_pkd_backbone_2', 'loss_pkd_neck_2'}
    total, _ = model.parse_losses(losses)
    total.backward()
    assert total.isfinite() and all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    'name', sorted(path.name.removesuffix('_bccd.py') for path in FOLDER.glob('rivals/*_bccd.py'))
)
def test_a_rival_takes_a_step_of_training(name):
    model = build(f'rivals/{name}').train()
    assert not any(isinstance(layer, BinaryLayer) for layer in model.modules())
    before = {key: value.clone() for key, value in model.named_parameters()}
    total, _ = model.parse_losses(losses_of(model))
    build_optim_wrapper(model, read(f'rivals/{name}').optim_wrapper).update_params(total)
    moved = [not torch.equal(value, before[key]) for key, value in model.named_parameters()]
    assert total.isfinite() and sum(moved) > len(moved) / 2  # levels without an object keep some


def test_a_step_of_training_and_an_exact_file(tmp_path):
    model = build('nano', **LITTLE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    resilient = ResilientGradient(model).attach(optimizer)
    losses = losses_of(model)
    loss = sum(sum(value) if isinstance(value, list) else value for value in losses.values())
    loss.backward()
    optimizer.step()
    assert loss.isfinite() and all(layer.steps == 1 for layer in resilient.layers)
    resilient.detach()
    path = tmp_path / 'nano.onnx'
    image = np.random.default_rng(0).integers(0, 255, (64, 96, 3), dtype=np.uint8)
    preprocess = {'channels': 'bgr', 'mean': [103.53, 116.28, 123.675], 'std': [57.375, 57.12, 58.395]}
    classes = ('Platelets', 'RBC', 'WBC')
    result = rebnn_mm.export_file(model.eval(), path, classes=classes, preprocess=preprocess, size=(64, 96))
    assert result.data == path.read_bytes()
    found = load(path)(image)
    assert len(found.boxes) == len(found.scores) and load(path).classes == classes
