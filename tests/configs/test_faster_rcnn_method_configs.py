"""Faster R-CNN under DoReFa-Net, XNOR-Net and Bi-Real Net, on COCO and VOC, and ReBNN's and the real one on VOC.

And how configs choose their method.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from mmengine.config import Config
from torch import nn

pytest.importorskip('mmdet')

from mmdet.registry import MODELS
from mmdet.utils import register_all_modules

from rebnn_mm.layers import BinaryConv2d, calibrate_shifts
from rebnn_mm.models.blocks import BinaryBiRealBlock, BinaryPreActBlock, BinaryReActBlock, BinaryReLUBlock

register_all_modules(init_default_scope=False)

CONFIGS = Path(__file__).parents[2] / 'configs'

# method: layer, bits, block, hook
METHODS = {
    'xnor': ('XNORConv2d', 1, BinaryPreActBlock, 'BinaryHook'),
    'bireal': ('BiRealConv2d', 1, BinaryBiRealBlock, 'BinaryHook'),
    'dorefa44': ('DoReFaConv2d', 4, BinaryReLUBlock, 'BinaryHook'),
    'rebnn': ('ReBNNConv2d', 1, BinaryReActBlock, 'ReBNNHook'),
}
COCO = {f'coco/faster_rcnn_r18_{method}_coco': method for method in METHODS if method != 'rebnn'}
VOC = {f'voc/faster_rcnn_r18_{method}_voc': method for method in METHODS}
ROWS = COCO | VOC


def convolutions(model: nn.Module) -> dict[str, nn.Conv2d]:
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Conv2d)}


def build_without_memory(cfg: Config) -> nn.Module:
    with torch.device('meta'):
        return MODELS.build(cfg.model)


def narrow(cfg: Config) -> Config:
    """The detector with an eighth of ResNet-18's width."""
    cfg.model.backbone.base_channels = 8
    cfg.model.rpn_head.update(in_channels=32, feat_channels=32)
    cfg.model.roi_head.shared_head.base_channels = 8
    cfg.model.roi_head.bbox_roi_extractor.out_channels = 32
    cfg.model.roi_head.bbox_head.in_channels = 64
    return cfg


@pytest.mark.parametrize('name', ROWS)
def test_one_step_learns_and_prediction_gives_boxes(name, load_config, detection_batch):
    torch.manual_seed(0)
    model = MODELS.build(narrow(load_config(name)).model)
    model.init_weights()
    data = model.data_preprocessor(detection_batch, training=True)
    assert calibrate_shifts(model, lambda: model(**data, mode='loss')) == []
    losses = model(**data, mode='loss')
    total, _ = model.parse_losses(losses)
    total.backward()
    assert {'loss_rpn_cls', 'loss_rpn_bbox', 'loss_cls', 'loss_bbox'} <= losses.keys()
    assert total.isfinite()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trained.values())
    binary = [m for m in convolutions(model).values() if isinstance(m, BinaryConv2d)]
    assert len(binary) == 16 + 1
    assert all(m.weight.grad.abs().sum() > 0 for m in binary)
    model.eval().roi_head.test_cfg.score_thr = 0.0
    with torch.no_grad():
        results = model.test_step(detection_batch)
    assert all(len(result.pred_instances) > 0 for result in results)
    assert all((result.pred_instances.bboxes <= torch.tensor([128, 96, 128, 96])).all() for result in results)


@pytest.mark.parametrize('name', ROWS)
def test_layer_block_and_hook_are_those_of_the_method(name, load_config):
    layer, bits, block, hook = METHODS[ROWS[name]]
    cfg = load_config(name)
    assert [h.type for h in cfg.custom_hooks] == [hook]
    assert cfg.custom_imports.imports == ['rebnn_mm']
    assert cfg.optim_wrapper.constructor == 'BinaryOptimWrapperConstructor'
    model = build_without_memory(cfg)
    convs = convolutions(model)
    real = {n for n, m in convs.items() if type(m) is nn.Conv2d}
    assert real == {
        'backbone.conv1',
        'backbone.layer2.0.downsample.0',
        'backbone.layer3.0.downsample.0',
        'roi_head.shared_head.layer4.0.downsample.0',
        'rpn_head.rpn_cls',
        'rpn_head.rpn_reg',
    }
    rest = [m for n, m in convs.items() if n not in real]
    assert {type(m).__name__ for m in rest} == {layer}
    assert all(m.binary and (m.weight_bits, m.activation_bits) == (bits, bits) for m in rest)
    assert type(model.backbone.layer1[0]) is type(model.roi_head.shared_head.layer4[0]) is block


@pytest.mark.parametrize('name', ROWS)
def test_schedule_is_bidets_but_for_rebnn(name, load_config):
    cfg = load_config(name)
    optimizer = cfg.optim_wrapper.optimizer.to_dict()
    milestones = cfg.param_scheduler[1].milestones
    if ROWS[name] == 'rebnn':
        assert (cfg.train_dataloader.batch_size, milestones) == (8, [8, 11])
        assert optimizer == dict(type='SGD', lr=0.008, momentum=0.9, weight_decay=0.0001)
    else:
        assert (cfg.train_dataloader.batch_size, milestones) == (32, [6, 10])
        assert optimizer == dict(type='Adam', lr=0.001)
    assert cfg.auto_scale_lr.base_batch_size == cfg.train_dataloader.batch_size
    assert cfg.train_cfg.max_epochs == 12


@pytest.mark.parametrize('name', COCO)
def test_everything_else_is_the_row_of_rebnn(name, load_config):
    ours, rebnn = (without_method(load_config(n)) for n in (name, 'coco/faster_rcnn_r18_rebnn_coco'))
    assert ours == rebnn


def without_method(cfg: Config) -> dict[str, Any]:
    """What rows of one table share: the config without layer, block, hook and schedule."""
    values = cfg.to_dict()
    for part in (
        values['model']['backbone'],
        values['model']['rpn_head'],
        values['model']['roi_head']['shared_head'],
    ):
        part.pop('conv_cfg')
        part.pop('block', None)
    values['train_dataloader'].pop('batch_size')
    method = {'normalizes', 'binary', 'custom_hooks', 'optim_wrapper', 'param_scheduler', 'auto_scale_lr'}
    return {key: value for key, value in values.items() if key not in method}


@pytest.mark.parametrize('name', [*VOC, 'voc/faster_rcnn_r18_voc'])
def test_voc_has_three_anchor_scales_and_twenty_classes(name, load_config):
    model = build_without_memory(load_config(name))
    generator = model.rpn_head.prior_generator
    base = generator.base_anchors[0]
    areas = ((base[:, 2] - base[:, 0]) * (base[:, 3] - base[:, 1])).sqrt().round().int().tolist()
    assert sorted(areas) == sorted([128, 256, 512] * 3)
    assert model.rpn_head.rpn_cls.out_channels == 9
    assert model.roi_head.bbox_head.fc_cls.out_features == 21


def test_real_valued_voc_config_is_stock(load_config):
    cfg = load_config('voc/faster_rcnn_r18_voc')
    assert 'custom_hooks' not in cfg
    assert {type(m) for m in convolutions(build_without_memory(cfg)).values()} == {nn.Conv2d}
    assert cfg.optim_wrapper.optimizer.lr == 0.008


@pytest.mark.parametrize('config', ['coco/faster_rcnn_r18_rebnn_coco', 'bccd/faster_rcnn_r18_rebnn_bccd'])
@pytest.mark.parametrize('method', sorted(path.stem for path in (CONFIGS / '_base_' / 'methods').glob('*.py')))
def test_another_base_line_is_another_method(config, method, tmp_path):
    original = CONFIGS / f'{config}.py'
    text = original.read_text().replace('methods/rebnn.py', f'methods/{method}.py')
    copy = tmp_path / 'copy.py'
    copy.write_text(re.sub(r"'(\.+/_base_/)", rf"'{original.parent}/\1", text))
    cfg = Config.fromfile(copy)
    chosen = Config.fromfile(CONFIGS / '_base_' / 'methods' / f'{method}.py')
    assert cfg.custom_hooks == chosen.custom_hooks
    for part in (cfg.model.backbone, cfg.model.rpn_head, cfg.model.roi_head.shared_head):
        assert part.conv_cfg == chosen.binary
    layers = {type(m).__name__ for m in convolutions(build_without_memory(cfg)).values()}
    assert layers == {'Conv2d', chosen.binary.type}


def test_a_method_is_named_in_its_own_base_only():
    for path in CONFIGS.rglob('*.py'):
        folders = path.relative_to(CONFIGS).parts
        if 'glue' in folders or folders[:2] == ('_base_', 'methods'):
            continue
        found = re.search(r"type='\w+Conv2d'|type='(Binary|ReBNN)Hook'|^binary = ", path.read_text(), re.MULTILINE)
        assert found is None, (path, found)
