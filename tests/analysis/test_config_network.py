from pathlib import Path

import pytest
from mmengine.config import Config

from rebnn_mm.analysis.config_network import build_network, input_shape

CONFIGS = Path(__file__).parents[2] / 'configs'


def of(*pipeline, loader='test_dataloader', divisor=None, **wrapped):
    dataset = dict(pipeline=[dict(type='LoadImageFromFile'), *pipeline])
    model = dict(data_preprocessor=dict(pad_size_divisor=divisor)) if divisor else dict()
    return Config({loader: dict(dataset=dict(dataset=dataset, **wrapped) if wrapped else dataset), 'model': model})


RESIZE = dict(type='Resize', scale=(1333, 800), keep_ratio=True)


@pytest.mark.parametrize(
    ('cfg', 'shape'),
    [
        (of(RESIZE), (800, 1333, 'test pipeline: Resize')),
        (of(dict(type='mmdet.Resize', scale=(300, 300))), (300, 300, 'test pipeline: Resize')),
        (
            of(RESIZE, divisor=32),
            (800, 1344, 'test pipeline: Resize to 800x1333; padded to multiples of 32 by data_preprocessor'),
        ),
        (
            of(dict(type='ResizeEdge', scale=256, edge='short'), dict(type='CenterCrop', crop_size=224)),
            (224, 224, 'test pipeline: ResizeEdge, CenterCrop'),
        ),
        (
            of(dict(type='Resize', scale=(640, 480)), dict(type='Pad', pad_to_square=True)),
            (640, 640, 'test pipeline: Resize, Pad'),
        ),
        (
            of(dict(type='Resize', scale=(30, 20)), dict(type='Pad', size_divisor=16)),
            (32, 32, 'test pipeline: Resize, Pad'),
        ),
        (of(dict(type='FixShapeResize', width=200, height=100)), (100, 200, 'test pipeline: FixShapeResize')),
        (
            of(dict(type='RandomCrop', crop_size=32, padding=4), loader='train_dataloader'),
            (32, 32, 'train pipeline: RandomCrop'),
        ),
        (of(RESIZE, type='RepeatDataset', times=2), (800, 1333, 'test pipeline: Resize')),
    ],
)
def test_size_of_a_pipeline(cfg, shape):
    assert input_shape(cfg) == shape


@pytest.mark.parametrize(
    ('name', 'shape'),
    [
        ('coco/faster_rcnn_r18_rebnn_coco', (608, 1024)),
        ('coco/ssd300_vgg16_rebnn_coco', (300, 300)),
        ('bccd/faster_rcnn_r18_rebnn_bccd', (256, 320)),
        ('imagenet/resnet34_rebnn_imagenet', (224, 224)),
        ('cifar10/vgg_small', (32, 32)),
        ('cifar10/own/resnet20_rebnn_100e_cifar10', (32, 32)),  # no pipeline of it says so
    ],
)
def test_size_of_our_configs(name, shape):
    assert input_shape(Config.fromfile(CONFIGS / f'{name}.py'))[:2] == shape


def test_a_config_without_a_size_says_what_to_give():
    with pytest.raises(ValueError, match='no data pipeline of the config says the size of an image. Give it: --shape'):
        input_shape(of(dict(type='PackInputs')))


def test_a_config_without_a_model_is_refused():
    with pytest.raises(ValueError, match='has no model'):
        build_network(Config(dict(train_cfg=None)))


def test_pretrained_weights_are_not_read():
    pytest.importorskip('mmdet')
    cfg = Config.fromfile(CONFIGS / 'coco/faster_rcnn_r18_rebnn_coco.py')
    cfg.model.backbone.init_cfg.checkpoint = 'no/such/file.pth'
    assert build_network(cfg).backbone.init_cfg['checkpoint'] == 'no/such/file.pth'
