import numpy as np
import pytest
from mmengine.registry import TRANSFORMS

import rebnn_mm  # noqa: F401


def crop(image, size, padding):
    step = TRANSFORMS.build(dict(type='TensorFlowCenterCrop', crop_size=size, crop_padding=padding))
    return step(dict(img=image))['img']


@pytest.mark.parametrize(('length', 'count'), [(300, 224), (224, 224), (100, 224)])
def test_a_slope_stays_a_slope_inside(length, count):
    image = np.broadcast_to(np.arange(length, dtype=np.float32)[:, None, None], (length, length, 1))
    found = crop(image, count, 0)[:, count // 2, 0]
    at = np.arange(count) * length / count
    inside = (at >= 1) & (at < length - 2)
    # A cubic with this parameter bends a line by at most a twelfth of a step.
    assert np.abs(found - at)[inside].max() < 1 / 12


def test_samples_are_those_that_tensorflow_takes():
    """resize_bicubic of TensorFlow 2.15.1: a row of 0, 10, 40, 90, 20, 70 to four."""
    image = np.broadcast_to(np.array([0, 10, 40, 90, 20, 70], np.float32)[:, None, None], (6, 6, 1))
    np.testing.assert_allclose(crop(image, 4, 0)[:, 0, 0], [0, 21.25, 90, 38.4375], atol=1e-4)


def test_the_square_is_the_middle_of_the_image():
    image = np.random.default_rng(0).integers(0, 256, (9, 12, 3), np.uint8)
    # 8 / (8 + 1) of 9 rows: 8, from the first row and the second column of the middle nine on.
    found = crop(image, 8, 1)
    np.testing.assert_allclose(found, image[1:9, 2:10], atol=1e-4)
    assert found.dtype == np.float32


def test_what_lies_below_zero_is_kept():
    image = np.zeros((20, 20, 1), np.uint8)
    image[:, 10:] = 255
    found = crop(image, 14, 0)
    assert found.min() < -20 and found.max() == pytest.approx(255)
