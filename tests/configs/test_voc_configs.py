"""The VOC configs: their data from a folder laid out as VOCdevkit, and the SSD rows' models."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.runner import Runner
from torch import nn

pytest.importorskip('mmdet')

import mmcv
from mmdet.registry import DATASETS, MODELS
from mmdet.utils import register_all_modules

from rebnn_mm.layers import BinaryConv2d

from .ssd import build_without_memory, convolutions, narrow, predict, train_one_step

register_all_modules(init_default_scope=False)

METHODS = ['rebnn', 'bireal', 'xnor', 'dorefa44']
SSD = [f'voc/ssd300_vgg16_{method}_voc' for method in METHODS]
FASTER_RCNN = [f'voc/faster_rcnn_r18_{method}_voc' for method in METHODS] + ['voc/faster_rcnn_r18_voc']

ANNOTATION = """<annotation>
<size><width>120</width><height>100</height><depth>3</depth></size>
<object><name>cat</name><difficult>0</difficult><bndbox>
<xmin>11</xmin><ymin>21</ymin><xmax>91</xmax><ymax>81</ymax></bndbox></object>
</annotation>"""


@pytest.fixture
def voc(tmp_path) -> Path:
    """One image of a cat in each split that the configs read."""
    generator = np.random.default_rng(0)
    for year, split in ((2007, 'trainval'), (2012, 'trainval'), (2007, 'test')):
        root, image = tmp_path / f'VOC{year}', f'{year}_{split}'
        mmcv.imwrite(generator.integers(0, 256, (100, 120, 3), np.uint8), str(root / 'JPEGImages' / f'{image}.jpg'))
        for folder, name, text in (
            ('ImageSets/Main', f'{split}.txt', image),
            ('Annotations', f'{image}.xml', ANNOTATION),
        ):
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / name).write_text(text)
    return tmp_path


def reading_from(cfg, root: Path):
    for dataset in (*cfg.train_dataloader.dataset.dataset.datasets, cfg.val_dataloader.dataset):
        dataset.data_root = str(root)
    cfg.test_dataloader.dataset.data_root = str(root)
    return cfg


@pytest.mark.parametrize('name', [*SSD, *FASTER_RCNN, 'voc/ssd300_vgg16_voc'])
def test_trained_on_both_trainval_sets_and_tested_on_2007(name, load_config, voc):
    cfg = reading_from(load_config(name), voc)
    train = DATASETS.build(cfg.train_dataloader.dataset)
    passes = 10 if name.endswith('ssd300_vgg16_voc') else 1
    assert len(train) == 2 * passes
    assert len(train.dataset.metainfo['classes']) == 20
    paths = {Path(train[i]['data_samples'].img_path).stem for i in (0, 1)}
    assert paths == {'2007_trainval', '2012_trainval'}
    test = DATASETS.build(cfg.test_dataloader.dataset)
    assert [Path(sample['data_samples'].img_path).stem for sample in test] == ['2007_test']
    instances = test[0]['data_samples'].gt_instances
    assert instances.labels.tolist() == [7]
    # VOC counts pixels from 1, and scores are taken in the original image.
    assert instances.bboxes.tensor.tolist() == [[10, 20, 90, 80]]
    assert test[0]['inputs'].shape[1:] == ((300, 300) if 'ssd' in name else (600, 720))
    assert (cfg.val_evaluator.type, cfg.val_evaluator.eval_mode) == ('VOCMetric', '11points')


@pytest.mark.parametrize('name', SSD)
def test_one_step_learns_and_prediction_gives_boxes(name, load_config):
    torch.manual_seed(0)
    model = MODELS.build(narrow(load_config(name)).model)
    train_one_step(model)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    binary = [m for m in convolutions(model).values() if isinstance(m, BinaryConv2d)]
    assert len(binary) == 16 + 1 + 8
    assert all(m.weight.grad.abs().sum() > 0 for m in binary)
    for result in predict(model):
        assert len(result) == model.bbox_head.test_cfg.max_per_img
        assert result.labels.max() < 20


@pytest.mark.parametrize('method', METHODS)
def test_ssd_is_that_of_coco_but_for_classes_and_anchors(method, load_config):
    ours, coco = load_config(f'voc/ssd300_vgg16_{method}_voc'), load_config(f'coco/ssd300_vgg16_{method}_coco')
    assert (ours.model.bbox_head.num_classes, coco.model.bbox_head.num_classes) == (20, 80)
    ours.model.bbox_head.num_classes = 80
    assert ours.model.bbox_head.anchor_generator.basesize_ratio_range == (0.2, 0.9)
    ours.model.bbox_head.anchor_generator.basesize_ratio_range = (0.15, 0.9)
    for key in ('model', 'custom_hooks', 'custom_imports', 'optim_wrapper', 'ssd_train_pipeline', 'ssd_test_pipeline'):
        assert ours[key] == coco[key]
    assert ours.train_dataloader.batch_size == coco.train_dataloader.batch_size
    assert ours.train_dataloader.sampler == coco.train_dataloader.sampler


@pytest.mark.parametrize('name', [*SSD, 'voc/ssd300_vgg16_voc'])
def test_anchors_are_those_of_ssd300_on_voc(name, load_config):
    generator = build_without_memory(load_config(name)).bbox_head.prior_generator
    assert generator.base_sizes == [30, 60, 111, 162, 213, 264]


@pytest.mark.parametrize('name', SSD)
def test_ssd_schedule_sees_as_many_images_as_bidets(name, load_config):
    cfg = load_config(name)
    batch = cfg.train_dataloader.batch_size
    assert batch == (16 if 'rebnn' in name else 32)
    assert cfg.train_cfg.max_iters * batch == 300_000 * 32
    assert [m * batch for m in cfg.param_scheduler[1].milestones] == [30_000 * 32, 80_000 * 32, 200_000 * 32]


def test_real_valued_ssd_has_the_size_in_the_papers_table(load_config):
    """105.16 MB in the table: 26,285,486 parameters of 32 bits, in millions of bytes, are 105.14."""
    model = build_without_memory(load_config('voc/ssd300_vgg16_voc'))
    assert sum(p.numel() for p in model.parameters()) == 26_285_486
    assert {type(m) for m in convolutions(model).values()} == {nn.Conv2d}


def test_binary_ssd_has_the_size_in_the_papers_table(load_config):
    """21.88 MB in the table: MiB of 1-bit weights and 32-bit parameters and statistics, with a head for 21 classes."""
    model = build_without_memory(load_config('voc/ssd300_vgg16_bireal_voc'))
    binary = {f'{n}.weight' for n, m in convolutions(model).items() if isinstance(m, BinaryConv2d)}
    state = model.state_dict()
    bits = sum(v.numel() for k, v in state.items() if k in binary)
    real = sum(
        v.numel()
        for k, v in state.items()
        if k not in binary and 'num_batches' not in k and 'activation_quantizer' not in k
    )
    assert bits == 25_018_368
    assert (bits / 8 + real * 4) / 2**20 == pytest.approx(21.88, abs=0.02)


@pytest.mark.slow
def test_ssd_trains_and_is_scored_on_voc(load_config, voc, tmp_path):
    cfg = reading_from(narrow(load_config('voc/ssd300_vgg16_rebnn_voc')), voc)
    cfg.work_dir = str(tmp_path / 'work')
    for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
        loader.update(num_workers=0, persistent_workers=False)
    cfg.train_dataloader.batch_size = 2
    cfg.train_cfg.update(max_iters=1, val_interval=1)
    cfg.default_hooks.logger.interval = 1
    runner = Runner.from_cfg(cfg)
    runner.train()
    scores = runner.message_hub.log_scalars
    assert scores['train/loss'].current() > 0
    assert 0 <= scores['val/pascal_voc/mAP'].current() <= 1
