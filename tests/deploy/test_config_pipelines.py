"""The steps that an exporter reads from a config give the tensor that the config's own test pipeline gives."""

import json
from pathlib import Path

import numpy as np
import pytest
from mmcv.transforms import Compose
from mmengine.config import Config
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import DefaultScope

import rebnn_mm  # noqa: F401
from rebnn_mm.deploy.image import read_image
from rebnn_mm.deploy.preprocess import Preprocess
from rebnn_mm.export.preprocess import read_preprocessing

ROOT = Path(__file__).parents[2]
PHOTOS = sorted((ROOT / 'demo/coco_sample/val2017').iterdir())[:2]
CONFIGS = {
    'imagenet/resnet18_rebnn_imagenet.py': 'mmpretrain',
    'coco/faster_rcnn_r18_rebnn_coco.py': 'mmdet',
    'coco/faster_rcnn_r18_fpn_rebnn_coco.py': 'mmdet',
    'coco/ssd300_vgg16_rebnn_coco.py': 'mmdet',
    'bccd/faster_rcnn_r18_rebnn_bccd.py': 'mmdet',
}


def expected(cfg, scope, path):
    """What the network would get for this file in the test loop, and the ratio of sizes."""
    with DefaultScope.overwrite_default_scope(scope):
        steps = [step for step in cfg.test_dataloader.dataset.pipeline if step.type != 'LoadAnnotations']
        pipeline = Compose(steps)
        given = cfg.model.get('data_preprocessor') or cfg.data_preprocessor
        preprocessor = ROOT_MODELS.build({'type': 'ClsDataPreprocessor', **given})
        packed = pipeline(dict(img_path=str(path), img_id=0))
        data = preprocessor({'inputs': [packed['inputs']], 'data_samples': [packed['data_samples']]})
    return data['inputs'].numpy(), packed['data_samples']


@pytest.mark.parametrize('path', PHOTOS, ids=lambda path: path.stem)
@pytest.mark.parametrize('name', CONFIGS)
def test_tensors_are_equal(name, path):
    cfg = Config.fromfile(ROOT / 'configs' / name)
    theirs, sample = expected(cfg, CONFIGS[name], path)
    ours = Preprocess.parse(json.dumps(read_preprocessing(cfg).steps))(read_image(path))
    assert np.array_equal(ours.image, theirs)
    if 'scale_factor' in sample:
        assert ours.scale == tuple(sample.scale_factor) and ours.valid_size == tuple(sample.img_shape)


PADS = {
    'YOLOX': dict(pad_to_square=True, pad_val=dict(img=(114.0, 104, 94))),
    'a multiple': dict(size_divisor=32, pad_val=7),
    'both': dict(size_divisor=32, pad_to_square=True),
    'a size': dict(size=(200, 190), pad_val=dict(img=(1, 2, 3))),
}


@pytest.mark.parametrize('swap', [{}, dict(bgr_to_rgb=True)], ids=['bgr', 'rgb'])
@pytest.mark.parametrize('name', PADS)
def test_letterboxes_are_equal(name, swap):
    pipeline = [
        dict(type='LoadImageFromFile'),
        dict(type='Resize', scale=(180, 160), keep_ratio=True),
        dict(type='Pad', **PADS[name]),
        dict(type='PackDetInputs', meta_keys=('img_id', 'img_shape', 'scale_factor')),
    ]
    preprocessor = dict(
        type='DetDataPreprocessor', mean=[1.5, 20, 30], std=[50, 60.5, 70], pad_size_divisor=48, **swap
    )
    cfg = Config(
        dict(test_dataloader=dict(dataset=dict(pipeline=pipeline)), model=dict(data_preprocessor=preprocessor))
    )
    theirs, sample = expected(cfg, 'mmdet', PHOTOS[0])
    steps = Preprocess.parse(json.dumps(read_preprocessing(cfg).steps))
    for kernels in (True, False):
        ours = steps(read_image(PHOTOS[0]), kernels=kernels)
        assert np.array_equal(ours.image, theirs)
        assert ours.scale == tuple(sample.scale_factor) and ours.valid_size == tuple(sample.img_shape)
