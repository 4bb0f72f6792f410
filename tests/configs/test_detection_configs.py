"""Every detection config: what it builds, that it learns from a step and that it predicts."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from torch import nn

pytest.importorskip('mmdet')

from mmdet.registry import MODELS
from mmdet.utils import register_all_modules

from rebnn_mm.layers import BinaryConv2d

from .ssd import build_without_memory, convolutions

register_all_modules(init_default_scope=False)

BINARY = [
    'coco/faster_rcnn_r18_rebnn_coco',
    'coco/faster_rcnn_r18_fpn_rebnn_coco',
    'bccd/faster_rcnn_r18_rebnn_bccd',
    'overfit/faster_rcnn_r18_rebnn_overfit',
]
REAL = ['coco/faster_rcnn_r18_coco', 'coco/faster_rcnn_r18_fpn_coco', 'bccd/faster_rcnn_r18_bccd']
C4 = [name for name in BINARY + REAL if 'fpn' not in name]


def small(cfg: Config) -> Config:
    """Few regions, and an eighth of the channels save in mmdet's own second stage, whose width is fixed."""
    cfg.merge_from_dict({'model.train_cfg.rcnn.sampler.num': 32, 'model.test_cfg.rpn.max_per_img': 20})
    model = cfg.model
    if 'neck' in model:
        model.backbone.base_channels = 8
        model.neck.update(in_channels=[8, 16, 32, 64], out_channels=32)
        model.rpn_head.update(in_channels=32, feat_channels=32)
        model.roi_head.bbox_roi_extractor.out_channels = 32
        model.roi_head.bbox_head.update(in_channels=32, fc_out_channels=64)
    elif 'conv_cfg' in model.backbone:
        model.backbone.base_channels = model.roi_head.shared_head.base_channels = 8
        model.rpn_head.update(in_channels=32, feat_channels=32)
        model.roi_head.bbox_roi_extractor.out_channels = 32
        model.roi_head.bbox_head.in_channels = 64
    return cfg


@pytest.mark.parametrize('name', BINARY + REAL)
def test_one_step_learns_and_prediction_gives_boxes(name, load_config, detection_batch):
    torch.manual_seed(0)
    cfg = small(load_config(name))
    model = MODELS.build(cfg.model)
    model.init_weights()
    data = model.data_preprocessor(detection_batch, training=True)
    losses = model(**data, mode='loss')
    total, _ = model.parse_losses(losses)
    total.backward()
    assert {'loss_rpn_cls', 'loss_rpn_bbox', 'loss_cls', 'loss_bbox'} <= losses.keys()
    assert total.isfinite()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert all(p.grad is not None and p.grad.isfinite().all() for p in trained.values())
    binary = [m for m in convolutions(model).values() if isinstance(m, BinaryConv2d) and m.binary]
    assert all(m.weight.grad.abs().sum() > 0 for m in binary)

    # Nothing is above the usual threshold before training.
    model.eval().roi_head.test_cfg.score_thr = 0.0
    with torch.no_grad():
        results = model.test_step(detection_batch)
    for result in results:
        boxes = result.pred_instances.bboxes
        assert len(boxes) > 0
        assert boxes.isfinite().all()
        assert (boxes >= 0).all()
        assert (boxes <= torch.tensor([128, 96, 128, 96])).all()


@pytest.mark.parametrize('name', BINARY)
def test_stem_shortcuts_and_predictors_are_real_and_the_rest_is_binary(name, load_config):
    model = build_without_memory(load_config(name))
    real = {n for n, m in convolutions(model).items() if type(m) is nn.Conv2d}
    expected = {'backbone.conv1', 'rpn_head.rpn_cls', 'rpn_head.rpn_reg'}
    expected |= {f'backbone.layer{i}.0.downsample.0' for i in (2, 3)}
    expected |= {'backbone.layer4.0.downsample.0' if 'fpn' in name else 'roi_head.shared_head.layer4.0.downsample.0'}
    assert real == expected
    rest = [m for n, m in convolutions(model).items() if n not in real]
    assert len(rest) == 16 + 1 + (8 if 'fpn' in name else 0)
    assert all(isinstance(m, BinaryConv2d) and m.binary and m.weight_bits == m.activation_bits == 1 for m in rest)


@pytest.mark.parametrize('name', BINARY + REAL)
def test_boxes_are_loaded_before_the_training_image_is_resized(name, load_config):
    """The other order is right for evaluation only, which scores in the original image."""
    steps = [step.type for step in load_config(name).train_dataloader.dataset.pipeline]
    assert steps.index('LoadAnnotations') < steps.index('Resize')


@pytest.mark.parametrize('name', BINARY)
def test_method_is_switched_on(name, load_config):
    cfg = load_config(name)
    assert cfg.custom_imports.imports == ['rebnn_mm']
    assert [hook.type for hook in cfg.custom_hooks] == ['ReBNNHook']
    assert cfg.optim_wrapper.constructor == 'BinaryOptimWrapperConstructor'
    model = build_without_memory(cfg)
    quantizers = [m.weight_quantizer for m in convolutions(model).values() if isinstance(m, BinaryConv2d)]
    assert {q.gamma_mode for q in quantizers} == {'adaptive'}
    assert {q.gamma_bounds for q in quantizers} == {(1e-5, 2e-4)}


@pytest.mark.parametrize('name', REAL)
def test_real_valued_twins_are_stock(name, load_config):
    cfg = load_config(name)
    assert 'custom_hooks' not in cfg
    assert 'constructor' not in cfg.optim_wrapper
    model = build_without_memory(cfg)
    assert {type(m) for m in convolutions(model).values()} == {nn.Conv2d}


@pytest.mark.parametrize(
    ('binary', 'real'),
    [
        ('coco/faster_rcnn_r18_rebnn_coco', 'coco/faster_rcnn_r18_coco'),
        ('coco/faster_rcnn_r18_fpn_rebnn_coco', 'coco/faster_rcnn_r18_fpn_coco'),
        ('bccd/faster_rcnn_r18_rebnn_bccd', 'bccd/faster_rcnn_r18_bccd'),
    ],
)
def test_twins_differ_in_model_and_method_only(binary, real, load_config):
    ours, twin = load_config(binary).to_dict(), load_config(real).to_dict()
    method = {
        'model',
        'binary',
        'custom_imports',
        'custom_hooks',
        'optim_wrapper',
        'norm_cfg',
        'pretrained',
        'filename',
    }
    assert {key: ours.get(key) for key in twin.keys() - method} == {key: twin[key] for key in twin.keys() - method}
    ours['optim_wrapper'].pop('constructor')
    ours['optim_wrapper'].pop('paramwise_cfg', None)  # the rate of latent weights
    assert ours['optim_wrapper'] == twin['optim_wrapper']
    for key in ('train_cfg', 'test_cfg', 'data_preprocessor'):
        assert ours['model'][key] == twin['model'][key]
    assert ours['model']['rpn_head']['anchor_generator'] == twin['model']['rpn_head']['anchor_generator']
    assert ours['model']['roi_head']['bbox_head'] == twin['model']['roi_head']['bbox_head']


def test_c4_real_valued_model_has_the_size_in_the_papers_table(load_config):
    """47.48 in the table: MiB of 32-bit parameters and statistics, of which BiDet's softmax and RPN norm are 0.03."""
    model = build_without_memory(load_config('coco/faster_rcnn_r18_coco'))
    values = sum(v.numel() for k, v in model.state_dict().items() if 'num_batches' not in k)
    assert values * 4 / 2**20 == pytest.approx(47.48, abs=0.05)


@pytest.mark.parametrize('name', C4)
def test_c4_layout(name, load_config):
    model = build_without_memory(load_config(name))
    anchors = model.rpn_head.prior_generator
    assert anchors.strides == [(16, 16)]
    assert model.roi_head.bbox_roi_extractor.roi_layers[0].output_size == (7, 7)
    assert model.roi_head.shared_head(torch.randn(2, 256, 7, 7, device='meta')).shape == (2, 512, 4, 4)
    assert model.roi_head.bbox_head.fc_reg.out_features == 4


@pytest.mark.parametrize('name', ['coco/faster_rcnn_r18_rebnn_coco', 'coco/faster_rcnn_r18_coco'])
def test_numbers_of_bidet(name, load_config):
    cfg = load_config(name)
    model = build_without_memory(cfg)
    base = model.rpn_head.prior_generator.base_anchors[0]
    areas = ((base[:, 2] - base[:, 0]) * (base[:, 3] - base[:, 1])).sqrt().round().int().tolist()
    assert sorted(areas) == sorted([64, 128, 256, 512] * 3)
    assert (model.rpn_head.in_channels, model.rpn_head.feat_channels) == (256, 512)
    assert model.rpn_head.loss_bbox.beta == pytest.approx(1 / 9)
    train, test = cfg.model.train_cfg, cfg.model.test_cfg
    assert (train.rpn_proposal.nms_pre, train.rpn_proposal.max_per_img, train.rpn_proposal.nms.iou_threshold) == (
        12000,
        2000,
        0.7,
    )
    assert (train.rpn.assigner.pos_iou_thr, train.rpn.assigner.neg_iou_thr, train.rpn.sampler.num) == (0.7, 0.3, 256)
    assert (train.rcnn.sampler.num, train.rcnn.sampler.pos_fraction) == (256, 0.25)
    assert (test.rpn.nms_pre, test.rpn.max_per_img) == (6000, 300)
    assert (test.rcnn.nms.iou_threshold, test.rcnn.max_per_img) == (0.3, 100)


@pytest.mark.parametrize('name', [n for n in BINARY + REAL if n.endswith('coco')])
def test_schedule_of_the_paper(name, load_config):
    cfg = load_config(name)
    assert cfg.train_dataloader.batch_size == 8
    assert cfg.optim_wrapper.optimizer.to_dict() == dict(type='SGD', lr=0.008, momentum=0.9, weight_decay=0.0001)
    assert cfg.auto_scale_lr.base_batch_size == 8
    assert cfg.train_cfg.max_epochs == 12
    for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
        (resize,) = (t for t in loader.dataset.pipeline if t.type == 'Resize')
        assert resize.scale == (1000, 600)
        assert loader.dataset.data_root == 'data/coco/'
    assert cfg.model.data_preprocessor.bgr_to_rgb
    assert cfg.model.data_preprocessor.mean == [123.675, 116.28, 103.53]
    assert cfg.val_evaluator.type == 'CocoMetric'


def test_anchors_of_the_blood_cell_config_fit_its_cells(load_config):
    """Median cells at half size: platelets 20, red cells 51, white cells 95 pixels, each within a factor of 1.25."""
    generator = build_without_memory(load_config('bccd/faster_rcnn_r18_rebnn_bccd')).rpn_head.prior_generator
    base = generator.base_anchors[0]
    sizes = ((base[:, 2] - base[:, 0]) * (base[:, 3] - base[:, 1])).sqrt()
    for cell in (20, 51, 95):
        assert ((sizes / cell).log().abs().min().exp() < 1.25).item()


def test_config_of_a_checkpoint_is_the_config_that_was_loaded(load_config):
    cfg = load_config('coco/faster_rcnn_r18_rebnn_coco')
    assert Config.fromstring(cfg.pretty_text, '.py').to_dict() == cfg.to_dict()


def test_the_one_file_at_the_top_of_configs_is_that_of_its_folder(load_config):
    (path,) = (Path(__file__).parents[2] / 'configs').glob('*.py')
    top, ours = load_config(path.stem), load_config(f'coco/{path.stem}')
    assert {**top.to_dict(), 'filename': None} == {**ours.to_dict(), 'filename': None}
