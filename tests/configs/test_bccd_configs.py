"""The blood cell configs of other methods: ReBNN's with another method in it, and trainable."""

import json

import pytest
import torch
from torch import nn

pytest.importorskip('mmdet')

from mmdet.registry import MODELS
from mmdet.utils import register_all_modules

from rebnn_mm.layers import BinaryConv2d, calibrate_shifts
from rebnn_mm.models.blocks import BinaryBiRealBlock, BinaryPreActBlock
from tests.scripts import ROOT

register_all_modules(init_default_scope=False)

# Layer, block, hooks.
METHODS = {
    'xnor': ('XNORConv2d', BinaryPreActBlock, ['BinaryHook']),
    'bireal': ('BiRealConv2d', BinaryBiRealBlock, ['BinaryHook']),
    'bidet': ('BiDetConv2d', BinaryBiRealBlock, ['BinaryHook', 'BiDetLossHook']),
}


def config(load_config, method):
    return load_config(f'bccd/faster_rcnn_r18_{method}_bccd')


def test_the_images_of_the_configs_come_with_the_repository(load_config):
    cfg = config(load_config, 'rebnn')
    for split in ('train', 'val', 'test'):
        data = cfg[f'{split}_dataloader'].dataset
        annotations = ROOT / data.data_root / data.ann_file
        if split != 'train':
            assert ROOT / cfg[f'{split}_evaluator'].ann_file == annotations
        images = json.loads(annotations.read_text())['images']
        folder = ROOT / data.data_root / data.data_prefix.img
        assert len(images) > 70 and all((folder / image['file_name']).is_file() for image in images)


@pytest.fixture
def model(load_config, request):
    """The detector with an eighth of ResNet-18's width."""
    cfg = config(load_config, request.param)
    cfg.model.backbone.base_channels = 8
    cfg.model.rpn_head.update(in_channels=32, feat_channels=32)
    cfg.model.roi_head.shared_head.base_channels = 8
    cfg.model.roi_head.bbox_roi_extractor.out_channels = 32
    cfg.model.roi_head.bbox_head.in_channels = 64
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    model.init_weights()
    return request.param, model


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
@pytest.mark.parametrize('model', METHODS, indirect=True)
def test_one_step_learns_and_prediction_gives_boxes(model, detection_batch):
    method, model = model
    layer, block, _ = METHODS[method]
    binary = {name: m for name, m in model.named_modules() if isinstance(m, BinaryConv2d) and m.binary}
    assert {type(m).__name__ for m in binary.values()} == {layer} and len(binary) == 16 + 1
    assert {type(m) for m in model.backbone.layer1} == {block}
    data = model.data_preprocessor(detection_batch, training=True)
    assert calibrate_shifts(model, lambda: model(**data, mode='loss')) == []
    total, _ = model.parse_losses(model(**data, mode='loss'))
    total.backward()
    assert total.isfinite()
    assert all(m.weight.grad.isfinite().all() and m.weight.grad.abs().sum() > 0 for m in binary.values())
    real = [m for m in model.modules() if isinstance(m, nn.Conv2d) and not isinstance(m, BinaryConv2d)]
    assert all(m.weight.grad.abs().sum() > 0 for m in real)
    model.eval().roi_head.test_cfg.score_thr = 0.0
    with torch.no_grad():
        assert all(len(result.pred_instances) > 0 for result in model.test_step(detection_batch))


@pytest.mark.parametrize('method', METHODS)
def test_data_schedule_and_anchors_are_those_of_rebnn(load_config, method):
    ours, theirs = config(load_config, method), config(load_config, 'rebnn')
    assert [hook.type for hook in ours.custom_hooks] == METHODS[method][2]
    for key in (
        'train_dataloader',
        'val_dataloader',
        'optim_wrapper',
        'param_scheduler',
        'train_cfg',
        'val_evaluator',
    ):
        assert ours[key] == theirs[key], key
    for key in ('train_cfg', 'test_cfg', 'data_preprocessor'):
        assert ours.model[key] == theirs.model[key], key
    assert ours.model.rpn_head.anchor_generator == theirs.model.rpn_head.anchor_generator
    assert ours.model.roi_head.bbox_head.num_classes == 3


def test_bidet_has_the_losses_of_its_coco_config(load_config):
    ours, theirs = config(load_config, 'bidet').model, load_config('coco/faster_rcnn_r18_bidet_coco').model
    for head in ('rpn_head', 'roi_head'):
        assert ours[head].type == theirs[head].type and ours[head].bottleneck == theirs[head].bottleneck
    assert ours.rpn_head.sample_sigma == theirs.rpn_head.sample_sigma
    assert ours.roi_head.suppression == theirs.roi_head.suppression
    assert ours.roi_head.bbox_head.type == theirs.roi_head.bbox_head.type


@pytest.mark.parametrize('detector', ['retinanet', 'atss', 'fcos'])
def test_a_one_stage_detector_has_binary_towers_and_a_twin_of_the_same_schedule(detector, load_config):
    ours, twin = (load_config(f'bccd/{detector}_r18_{name}bccd') for name in ('rebnn_', ''))
    model = MODELS.build(ours.model)
    binary = [name for name, m in model.named_modules() if isinstance(m, BinaryConv2d) and m.binary]
    parts = [sum(name.startswith(part) for name in binary) for part in ('backbone', 'bbox_head.cls', 'bbox_head.reg')]
    assert parts == [16, 4, 4] and len(binary) == 24
    for key in ('train_dataloader', 'val_dataloader', 'param_scheduler', 'train_cfg', 'val_evaluator'):
        assert ours[key] == twin[key] == config(load_config, 'rebnn')[key], key
    assert ours.optim_wrapper.optimizer == twin.optim_wrapper.optimizer
    assert not any(isinstance(m, BinaryConv2d) for m in MODELS.build(twin.model).modules())
