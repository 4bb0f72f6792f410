"""The SSD300 rows of the COCO table: what each config builds, that it learns from a step and that it predicts."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from torch import nn

pytest.importorskip('mmdet')

import mmdet
from mmdet.registry import MODELS
from mmdet.utils import register_all_modules

from rebnn_mm.layers import BinaryConv2d, RPReLU

from .ssd import build_without_memory, convolutions, narrow, predict, train_one_step, without_scopes

register_all_modules(init_default_scope=False)

STOCK = Path(mmdet.__file__).parent / '.mim' / 'configs' / 'ssd' / 'ssd300_coco.py'
SAMPLE = Path(__file__).parents[2] / 'demo' / 'coco_sample'

# config: layer, bits, what follows each convolution, whether it has a shortcut, hook
ROWS = {
    'coco/ssd300_vgg16_rebnn_coco': ('ReBNNConv2d', 1, RPReLU, True, 'ReBNNHook'),
    'coco/ssd300_vgg16_rebnn_adam_coco': ('ReBNNConv2d', 1, RPReLU, True, 'ReBNNHook'),
    'coco/ssd300_vgg16_bireal_coco': ('BiRealConv2d', 1, nn.Identity, True, 'BinaryHook'),
    'coco/ssd300_vgg16_xnor_coco': ('XNORConv2d', 1, nn.Identity, False, 'BinaryHook'),
    'coco/ssd300_vgg16_dorefa44_coco': ('DoReFaConv2d', 4, nn.ReLU, False, 'BinaryHook'),
}
OVERFIT = 'overfit/ssd300_vgg16_rebnn_overfit'


@pytest.mark.parametrize('name', [*ROWS, OVERFIT])
def test_one_step_learns_and_prediction_gives_boxes(name, load_config):
    torch.manual_seed(0)
    model = MODELS.build(narrow(load_config(name)).model)
    losses = train_one_step(model)
    assert losses.keys() == {'loss_cls', 'loss_bbox'}
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    binary = [m for m in convolutions(model).values() if isinstance(m, BinaryConv2d)]
    assert len(binary) == 16 + 1 + 8
    assert all(m.weight.grad.abs().sum() > 0 for m in binary)
    for result in predict(model):
        assert len(result) == model.bbox_head.test_cfg.max_per_img
        assert (result.bboxes >= 0).all()
        assert (result.bboxes <= 300).all()
        assert ((result.scores >= 0) & (result.scores <= 1)).all()


@pytest.mark.parametrize('name', ROWS)
def test_rows_differ_in_layer_block_and_hook(name, load_config):
    layer, bits, act, shortcut, hook = ROWS[name]
    cfg = load_config(name)
    assert [h.type for h in cfg.custom_hooks] == [hook]
    assert cfg.custom_imports.imports == ['rebnn_mm']
    assert cfg.optim_wrapper.constructor == 'BinaryOptimWrapperConstructor'
    model = build_without_memory(cfg)
    convs = convolutions(model)
    real = {n for n, m in convs.items() if type(m) is nn.Conv2d}
    shortcuts = [f'pool{i}' for i in (1, 2, 3, 4)] + [f'conv{i}_1' for i in (2, 3, 4)]
    expected = {'backbone.conv1_1.conv', 'backbone.conv7.conv'}
    expected |= {f'backbone.{n}.downsample.0' for n in shortcuts} if shortcut else set()
    expected |= {f'bbox_head.{branch}_convs.{i}.0' for branch in ('cls', 'reg') for i in range(6)}
    assert real == expected
    rest = {n: m for n, m in convs.items() if n not in real}
    assert {type(m).__name__ for m in rest.values()} == {layer}
    assert all(m.binary and (m.weight_bits, m.activation_bits) == (bits, bits) for m in rest.values())
    assert {n.rsplit('.', 1)[0] for n in rest} == {
        *(f'backbone.{n}' for n in model.backbone.sequence if n not in ('conv1_1', 'pool5', 'conv7')),
        *(f'neck.extra_layers.{i}.{j}' for i in range(4) for j in (0, 1)),
    }
    assert type(model.backbone.conv3_2.act) is act
    assert model.backbone.conv3_2.shortcut is shortcut


def test_every_key_of_rebnn_is_spelled_out(load_config):
    model = build_without_memory(load_config('coco/ssd300_vgg16_rebnn_coco'))
    quantizers = [m.weight_quantizer for m in convolutions(model).values() if isinstance(m, BinaryConv2d)]
    assert {(q.gamma_mode, q.gamma_bounds) for q in quantizers} == {('adaptive', (1e-5, 2e-4))}


@pytest.mark.parametrize('name', ROWS)
def test_extra_layers_have_a_norm_and_no_activation(name, load_config):
    neck = build_without_memory(load_config(name)).neck
    extras = [module for level in neck.extra_layers for module in level]
    assert all(module.with_norm and not module.with_activation for module in extras)
    assert neck.l2_norm.scale == 20


@pytest.mark.parametrize('name', [n for n, row in ROWS.items() if row[1] == 1])
def test_first_extra_layer_has_a_threshold_from_data_as_it_is_behind_a_relu(name, load_config):
    neck = build_without_memory(load_config(name)).neck
    assert neck.extra_layers[0][0].conv.activation_quantizer.shift_start == 'mean'


@pytest.mark.parametrize('name', [*ROWS, 'coco/ssd300_vgg16_coco'])
def test_anchors_are_those_of_ssd300_on_coco(name, load_config):
    generator = build_without_memory(load_config(name)).bbox_head.prior_generator
    smallest, largest = [21, 45, 99, 153, 207, 261], [45, 99, 153, 207, 261, 315]
    assert generator.base_sizes == smallest
    assert [s * float(scale[1]) ** 2 for s, scale in zip(smallest, generator.scales, strict=True)] == pytest.approx(
        largest
    )
    assert [stride[0] for stride in generator.strides] == [8, 16, 32, 64, 100, 300]
    assert generator.num_base_priors == [4, 6, 6, 6, 4, 4]


def test_real_valued_row_is_stock_but_for_the_head_that_can_predict(load_config):
    stock, ours = Config.fromfile(STOCK), load_config('coco/ssd300_vgg16_coco')
    assert ours.model.bbox_head.pop('type') == 'rebnn_mm.FixedSSDHead'
    assert stock.model.bbox_head.pop('type') == 'SSDHead'
    stock.model.backbone.init_cfg = None
    assert without_scopes({key: ours[key] for key in stock}) == without_scopes(stock.to_dict())


@pytest.mark.slow
def test_real_valued_row_trains_and_predicts(load_config):
    torch.manual_seed(0)
    model = MODELS.build(load_config('coco/ssd300_vgg16_coco').model)
    assert {type(m) for m in convolutions(model).values()} == {nn.Conv2d}
    train_one_step(model, batch=1)
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert model.backbone.features[0].weight.grad.abs().sum() > 0
    assert [len(result) for result in predict(model, batch=1)] == [200]


@pytest.mark.parametrize('name', ROWS)
def test_data_is_that_of_mmdets_ssd_but_for_the_loop(name, load_config):
    cfg, stock = load_config(name), Config.fromfile(STOCK)
    for step in (*stock.train_dataloader.dataset.dataset.pipeline, *stock.val_dataloader.dataset.pipeline):
        step.pop('backend_args', None)
    assert cfg.train_dataloader.dataset.pipeline == stock.train_dataloader.dataset.dataset.pipeline
    assert cfg.val_dataloader.dataset.pipeline == stock.val_dataloader.dataset.pipeline
    assert cfg.train_dataloader.dataset.filter_cfg == stock.train_dataloader.dataset.dataset.filter_cfg
    assert cfg.model.data_preprocessor == stock.model.data_preprocessor
    assert cfg.model.train_cfg == stock.model.train_cfg
    assert cfg.train_dataloader.sampler.type == 'InfiniteSampler'
    assert (cfg.train_cfg.type, cfg.log_processor.by_epoch) == ('IterBasedTrainLoop', False)
    assert cfg.default_hooks.checkpoint.by_epoch is False


@pytest.mark.parametrize('name', ROWS)
def test_schedule(name, load_config):
    cfg = load_config(name)
    warm_up, steps = cfg.param_scheduler
    assert warm_up.end == 500
    batch = cfg.train_dataloader.batch_size
    optimizer = cfg.optim_wrapper.optimizer.to_dict()
    if name == 'coco/ssd300_vgg16_rebnn_coco':
        assert batch == 16
        assert optimizer == dict(type='SGD', lr=0.008, momentum=0.9)
        assert cfg.optim_wrapper.clip_grad.max_norm == 35
    else:
        assert batch == 32
        assert optimizer == dict(type='Adam', lr=0.001)
    assert cfg.auto_scale_lr.base_batch_size == batch
    assert cfg.train_cfg.max_iters * batch == 400_000 * 32
    assert [m * batch for m in steps.milestones] == [40_000 * 32, 80_000 * 32, 200_000 * 32]


@pytest.mark.parametrize('name', ROWS)
def test_config_of_a_checkpoint_is_the_config_that_was_loaded(name, load_config):
    cfg = load_config(name)
    assert Config.fromstring(cfg.pretty_text, '.py').to_dict() == cfg.to_dict()


def test_overfit_config_trains_and_scores_real_images(load_config, tmp_path):
    cfg = narrow(load_config(OVERFIT))
    cfg.work_dir = str(tmp_path)
    for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
        loader.dataset.update(data_root=str(SAMPLE), indices=[1, 9])
        loader.update(num_workers=0, persistent_workers=False)
    cfg.train_dataloader.batch_size = 2
    cfg.train_cfg.update(max_iters=2, val_interval=2)
    cfg.default_hooks.logger.interval = 1
    cfg.model.test_cfg.score_thr = 0.0
    runner = Runner.from_cfg(cfg)
    runner.train()
    scores = runner.message_hub.log_scalars
    assert 0 <= scores['val/coco/bbox_mAP_50'].current() <= 1
    assert scores['train/loss'].current() > 0
    assert scores['train/rebnn/gamma_mean_x1e6'].current() >= 10
