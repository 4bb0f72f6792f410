"""Preparation gives, to the last bit, what mmcv, mmdet and mmpretrain give."""

import json
from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmcv.transforms import CenterCrop
from mmdet.models.data_preprocessors import DetDataPreprocessor
from mmdet.structures.bbox import scale_boxes
from mmpretrain.datasets.transforms import ResizeEdge
from mmpretrain.models import ClsDataPreprocessor

from rebnn_mm.deploy.errors import ImageError, ModelFileError
from rebnn_mm.deploy.image import read_image
from rebnn_mm.deploy.preprocess import Preprocess

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
PHOTOS = sorted((Path(__file__).parents[2] / 'demo/coco_sample/val2017').iterdir())
SIZES = [(640, 427), (427, 640), (500, 375), (33, 1000), (1000, 33), (7, 7), (1333, 800), (1, 1), (320, 241)]


def steps(**values):
    return Preprocess.parse(json.dumps({'channels': 'rgb', **values}))


def image_of(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)


def as_bgr(image):
    """What mmcv would have loaded."""
    return np.ascontiguousarray(image[..., ::-1])


@pytest.mark.parametrize('scale', [(1000, 600), (320, 240), (240, 320), (75, 75)])
@pytest.mark.parametrize('size', SIZES)
def test_keep_ratio_is_mmcvs_imrescale(size, scale):
    image = image_of(size)
    expected = mmcv.imrescale(image, scale)
    prepared = steps(resize={'mode': 'keep_ratio', 'size': list(scale)})(image)
    assert np.array_equal(prepared.image[0], expected.transpose(2, 0, 1))
    assert prepared.valid_size == expected.shape[:2]
    assert prepared.scale == (expected.shape[1] / size[0], expected.shape[0] / size[1])


def test_sizes_are_rounded_as_in_mmcv():
    """Sizes alone, for many more images than could be resized."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        size = tuple(map(int, rng.integers(200, 3000, 2)))
        scale = tuple(map(int, rng.integers(200, 2000, 2)))
        keep = steps(resize={'mode': 'keep_ratio', 'size': list(scale)})
        assert keep._compute_size(*size) == mmcv.rescale_size(size, scale)


@pytest.mark.parametrize('size', [(640, 427), (427, 640), (300, 300), (224, 500), (1000, 201)])
def test_short_edge_and_crop_are_mmpretrains(size):
    image = image_of(size)
    results = CenterCrop(224)(ResizeEdge(scale=256, edge='short')(dict(img=image)))
    prepared = steps(resize={'mode': 'short_edge', 'size': 256}, crop=[224, 224])(image)
    assert np.array_equal(prepared.image[0], results['img'].transpose(2, 0, 1))


@pytest.mark.parametrize('size', [(31, 20), (20, 31), (33, 35), (10, 10)])
def test_a_crop_of_a_smaller_image_is_mmcvs(size):
    image = image_of(size)
    expected = CenterCrop((21, 30))(dict(img=image))['img']
    assert np.array_equal(steps(crop=[21, 30])(image).image[0], expected.transpose(2, 0, 1))


@pytest.mark.parametrize('to_rgb', [True, False])
@pytest.mark.parametrize(('divisor', 'value'), [(1, 0), (32, 0), (16, 1.5)])
def test_normalisation_and_padding_are_mmdets(to_rgb, divisor, value):
    theirs = DetDataPreprocessor(MEAN, STD, divisor, value, bgr_to_rgb=to_rgb)
    for size in ((50, 41), (64, 32)):
        image = image_of(size)
        tensor = torch.from_numpy(as_bgr(image).transpose(2, 0, 1).copy())
        expected = theirs({'inputs': [tensor]})['inputs'].numpy()
        prepared = steps(
            channels='rgb' if to_rgb else 'bgr', mean=MEAN, std=STD, pad={'divisor': divisor, 'value': value}
        )(image)
        assert prepared.image.dtype == np.float32
        assert np.array_equal(prepared.image, expected)
        assert prepared.valid_size == (size[1], size[0])


@pytest.mark.parametrize('to_rgb', [True, False])
@pytest.mark.parametrize('mean', [MEAN, [127, 127, 127], None])
def test_normalisation_is_mmpretrains(to_rgb, mean):
    std = None if mean is None else STD
    image = image_of((32, 32))
    tensor = torch.from_numpy(as_bgr(image).transpose(2, 0, 1).copy())
    expected = ClsDataPreprocessor(mean, std, to_rgb=to_rgb)({'inputs': [tensor]})['inputs'].numpy()
    values = {} if mean is None else {'mean': mean, 'std': std}
    assert np.array_equal(steps(channels='rgb' if to_rgb else 'bgr', **values)(image).image, expected)


@pytest.mark.parametrize('path', PHOTOS[:6], ids=lambda path: path.stem)
def test_a_file_is_prepared_as_by_the_test_pipeline(path):
    """Loading, resizing and normalising, together."""
    image = mmcv.imrescale(mmcv.imread(path), (320, 240))
    tensor = torch.from_numpy(image.transpose(2, 0, 1).copy())
    expected = DetDataPreprocessor(MEAN, STD, 32, bgr_to_rgb=True)({'inputs': [tensor]})['inputs'].numpy()
    ours = steps(
        resize={'mode': 'keep_ratio', 'size': [320, 240]}, mean=MEAN, std=STD, pad={'divisor': 32, 'value': 0}
    )(read_image(path))
    assert np.array_equal(ours.image, expected)


def test_boxes_go_back_to_the_image_as_in_mmdet():
    prepared = steps(resize={'mode': 'exact', 'size': [300, 300]})(image_of((640, 427)))
    boxes = np.random.default_rng(0).uniform(0, 300, (20, 4)).astype(np.float32)
    expected = scale_boxes(torch.from_numpy(boxes), [1 / factor for factor in prepared.scale])
    assert np.array_equal(prepared.to_original(boxes), expected.numpy())


def test_boxes_of_a_crop_are_moved_back():
    image = np.zeros((40, 60, 3), np.uint8)
    prepared = steps(resize={'mode': 'exact', 'size': [120, 80]}, crop=[100, 50])(image)
    whole = prepared.to_original(np.array([[0, 0, 100, 50]], np.float32))
    assert whole.tolist() == [[5, 7.5, 55, 32.5]]


@pytest.mark.parametrize(
    ('image', 'words'),
    [
        ([[0]], 'must be the path of a file, its bytes, an image of Pillow or a NumPy array, not list'),
        (np.zeros((5, 4, 2), np.uint8), r'with 1, 3 or 4 channels, not \[5, 4, 2\]$'),
        (np.zeros((3, 4, 5), np.uint8), r'not \[3, 4, 5\]; move its channels to the end'),
        (np.zeros((1, 4, 4, 3), np.uint8), r'not \[1, 4, 4, 3\]'),
        (np.full((4, 4, 3), 256), 'an array of int64 must hold numbers from 0 to 255'),
        (np.full((4, 4, 3), 200.0), 'goes from 200 to 200; if it should be 0 to 255, give it as uint8'),
        (np.full((4, 4, 3), np.nan, np.float32), 'goes from nan to nan'),
        (np.zeros((0, 4, 3), np.uint8), r'not \[0, 4, 3\]'),
    ],
)
def test_what_is_no_image(image, words):
    with pytest.raises(ImageError, match=words):
        steps()(image)


@pytest.mark.parametrize(
    ('values', 'size'),
    [
        ({'resize': {'mode': 'keep_ratio', 'size': [100, 60]}}, (5000, 1)),
        ({'resize': {'mode': 'short_edge', 'size': 4000}}, (3, 40)),
        ({'resize': {'mode': 'exact', 'size': [20000, 20000]}}, (3, 3)),
        ({'pad': {'divisor': 30000, 'value': 0}}, (3, 3)),
    ],
)
def test_an_image_that_would_vanish_or_burst(values, size):
    with pytest.raises(ImageError, match='crop the image first'):
        steps(**values)(image_of(size))


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('nothing', 'must be a JSON object'),
        ('[' * 100_000, 'must be a JSON object'),
        ('[]', 'must be a JSON object'),
        ('{}', "channels in rebnn.preprocess must be 'rgb' or 'bgr'"),
        ('{"channels": "rgb", "blur": 3}', "the step 'blur', which this version does not know"),
        ('{"channels": "rgb", "mean": [1, 2, 3]}', 'mean and std, or neither'),
        ('{"channels": "rgb", "mean": [1, 2, 3], "std": [1, 0, 1]}', 'std in rebnn.preprocess must not be 0'),
        ('{"channels": "rgb", "mean": [1, 2, 3], "std": [1, 1e-60, 1]}', 'std in rebnn.preprocess must not be 0'),
        ('{"channels": "rgb", "mean": [1e38, 0, 0], "std": [0.1, 1, 1]}', 'make pixels that are not finite numbers'),
        ('{"channels": "rgb", "mean": [1, 2, 3], "std": [1, 1e-40, 1]}', 'make pixels that are not finite numbers'),
        ('{"channels": "rgb", "mean": [1, 2, 3], "std": [1, 1]}', 'std in rebnn.preprocess must be three numbers'),
        ('{"channels": "rgb", "mean": [1, 2, NaN], "std": [1, 1, 1]}', 'mean in rebnn.preprocess must be in float32'),
        ('{"channels": "rgb", "mean": [1, 2, 1e99], "std": [1, 1, 1]}', 'mean in rebnn.preprocess must be in float32'),
        ('{"channels": "rgb", "mean": [1, true, 1], "std": [1, 1, 1]}', 'mean in rebnn.preprocess must be in float32'),
        ('{"channels": "rgb", "crop": [0, 3]}', 'crop in rebnn.preprocess must be in whole numbers'),
        ('{"channels": "rgb", "crop": 3}', 'crop in rebnn.preprocess must be a width and a height'),
        ('{"channels": "rgb", "resize": {"mode": "exact"}}', 'resize in rebnn.preprocess must have mode and size'),
        ('{"channels": "rgb", "resize": {"mode": "fit", "size": [1, 1]}}', "has the mode 'fit'"),
        ('{"channels": "rgb", "resize": {"mode": "exact", "size": 3}}', 'must be a width and a height'),
        ('{"channels": "rgb", "resize": {"mode": "short_edge", "size": [3, 3]}}', 'must be in whole numbers'),
        (
            '{"channels": "rgb", "pad": {"divisor": 1.5, "value": 0}}',
            'pad in rebnn.preprocess must be in whole numbers',
        ),
        ('{"channels": "rgb", "pad": 32}', 'pad in rebnn.preprocess must have divisor and value'),
        ('{"channels": "rgb", "letterbox": {"square": true}}', 'letterbox in rebnn.preprocess must have value'),
        ('{"channels": "rgb", "letterbox": {"value": [0, 0, 0], "square": 1}}', 'letterbox .* must have value'),
        ('{"channels": "rgb", "letterbox": {"value": [0, 0, 256]}}', 'three numbers of 0 to 255'),
        ('{"channels": "rgb", "letterbox": {"value": 114}}', 'three numbers of 0 to 255'),
        ('{"channels": "rgb", "letterbox": {"value": [0, 0, 0], "divisor": 0}}', 'letterbox .* whole numbers'),
        ('{"channels": "rgb", "letterbox": {"value": [0, 0, 0], "size": 9}}', 'letterbox .* a width and a height'),
    ],
)
def test_steps_that_cannot_be(text, words):
    with pytest.raises(ModelFileError, match=words):
        Preprocess.parse(text)
