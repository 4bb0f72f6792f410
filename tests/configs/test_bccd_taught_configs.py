"""The blood cell configs with a teacher: from the teacher over both stages, with an eighth of the width."""

import pytest
import torch

pytest.importorskip('mmdet')

from mmdet.registry import MODELS
from mmdet.utils import register_all_modules
from mmengine.runner import load_checkpoint, save_checkpoint

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.utils.checkpoint import QUANTIZER

register_all_modules(init_default_scope=False)

TEACHER, TAUGHT, STAGE1, STAGE2 = (
    f'bccd/faster_rcnn_r18_{name}_bccd' for name in ('teacher', 'rebnn_taught', 'react_stage1', 'rebnn_two_stage')
)
pytestmark = pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')


def narrow(model):
    model.backbone.base_channels = 8
    model.rpn_head.update(in_channels=32, feat_channels=32)
    model.roi_head.shared_head.base_channels = 8
    model.roi_head.bbox_roi_extractor.out_channels = 32
    model.roi_head.bbox_head.in_channels = 64
    return model


@pytest.fixture
def teacher_file(load_config, tmp_path):
    torch.manual_seed(0)
    model = MODELS.build(narrow(load_config(TEACHER).model))
    model.init_weights()
    assert not any(isinstance(module, BinaryConv2d) for module in model.modules())
    save_checkpoint(dict(state_dict=model.state_dict()), str(tmp_path / 'teacher.pth'))
    return tmp_path / 'teacher.pth'


@pytest.fixture
def build(load_config, teacher_file):
    def build(name):
        model = narrow(load_config(name).model)
        # The shipped file, in the same width.
        assert model.teacher == f'configs/{TEACHER}.py'
        model.update(teacher=narrow(load_config(TEACHER).model), teacher_checkpoint=str(teacher_file))
        torch.manual_seed(1)
        built = MODELS.build(model)
        built.init_weights()
        return built

    return build


def bits(model):
    return {(m.weight_bits, m.activation_bits) for m in model.modules() if isinstance(m, BinaryConv2d) and m.binary}


@pytest.mark.parametrize(('name', 'expected'), [(TAUGHT, (1, 1)), (STAGE1, (32, 1))])
def test_a_student_starts_from_the_teacher_and_learns(build, teacher_file, detection_batch, name, expected):
    model = build(name)
    assert bits(model) == {expected}
    state = model.state_dict()
    theirs = torch.load(teacher_file)['state_dict']
    assert all(torch.equal(state[key], value) for key, value in theirs.items())
    assert all(QUANTIZER.match(key) for key in state.keys() - theirs.keys())
    losses = model.train()(**model.data_preprocessor(detection_batch, training=True), mode='loss')
    assert losses.keys() >= {'loss_dkd', 'loss_objectness', 'loss_pkd_backbone', 'loss_pkd_roi_head.shared_head'}
    total, _ = model.parse_losses(losses)
    total.backward()
    assert total.isfinite() and all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_student_of_one_stage_starts_from_its_teacher_and_learns(load_config, tmp_path, detection_batch):
    teacher, taught = (load_config(f'bccd/atss_r18_{name}_bccd').model for name in ('teacher', 'rebnn_taught'))
    assert taught.teacher == 'configs/bccd/atss_r18_teacher_bccd.py'
    for model in (teacher, taught):
        model.backbone.base_channels = 8
        model.neck.update(in_channels=[16, 32, 64], out_channels=8)
        model.bbox_head.update(in_channels=8, feat_channels=8)
    torch.manual_seed(0)
    theirs = MODELS.build(teacher)
    theirs.init_weights()
    save_checkpoint(dict(state_dict=theirs.state_dict()), str(tmp_path / 'teacher.pth'))
    taught.update(teacher=teacher, teacher_checkpoint=str(tmp_path / 'teacher.pth'))
    model = MODELS.build(taught)
    model.init_weights()
    assert bits(model) == {(1, 1)} and bits(theirs) == set()
    state = model.state_dict()
    assert all(torch.equal(state[key], value) for key, value in theirs.state_dict().items())
    losses = model.train()(**model.data_preprocessor(detection_batch, training=True), mode='loss')
    assert losses.keys() >= {'loss_dense_scores', 'loss_dense_boxes', 'loss_pkd_backbone_2', 'loss_pkd_neck_2'}
    total, _ = model.parse_losses(losses)
    total.backward()
    assert total.isfinite() and all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_the_second_stage_starts_from_the_first(build, tmp_path):
    first = build(STAGE1)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    save_checkpoint(dict(state_dict=first.state_dict()), str(tmp_path / 'stage1.pth'))
    second = build(STAGE2)
    load_checkpoint(second, str(tmp_path / 'stage1.pth'), map_location='cpu')
    assert bits(second) == {(1, 1)}
    ours, theirs = second.state_dict(), first.state_dict()
    assert all(torch.equal(ours[key], value) for key, value in theirs.items())
    assert all('weight_quantizer' in key for key in ours.keys() - theirs.keys())
    hidden = second.rpn_head.rpn_conv[0].conv
    torch.testing.assert_close(hidden.weight_quantizer.alpha.flatten(), hidden.weight.abs().mean((1, 2, 3)))


def test_data_and_schedule_are_those_of_the_other_rows(load_config):
    rebnn = load_config('bccd/faster_rcnn_r18_rebnn_bccd')
    for name in (TEACHER, TAUGHT, STAGE1, STAGE2):
        cfg = load_config(name)
        for key in ('train_dataloader', 'val_dataloader', 'optim_wrapper', 'param_scheduler', 'train_cfg'):
            assert cfg[key] == rebnn[key], (name, key)
        assert cfg.model.rpn_head.anchor_generator == rebnn.model.rpn_head.anchor_generator
        assert cfg.model.rpn_head.block == 'react'
    first, second = load_config(STAGE1), load_config(STAGE2)
    assert second.load_from == f'work_dirs/{STAGE1.removeprefix("bccd/")}/epoch_{first.train_cfg.max_epochs}.pth'
    assert second.model.teacher_checkpoint.endswith(f'epoch_{load_config(TEACHER).train_cfg.max_epochs}.pth')
