"""Resizing gives OpenCV's pixels."""

import cv2
import numpy as np
import pytest

from rebnn_mm.deploy.resize import resize_bilinear


def assert_as_opencv(image, size):
    ours = resize_bilinear(image, size)
    theirs = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR).reshape(ours.shape)
    assert ours.dtype == np.uint8
    assert np.array_equal(ours, theirs), f'{image.shape} to {size}'


@pytest.mark.parametrize('largest', [8, 90, 400])
def test_any_sizes(largest):
    rng = np.random.default_rng(largest)
    for _ in range(150):
        width, height, new_width, new_height = map(int, rng.integers(1, largest, 4))
        image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        assert_as_opencv(image, (new_width, new_height))


@pytest.mark.parametrize('factor', [0.125, 0.25, 1 / 3, 0.5, 2, 3, 4])
def test_whole_ratios(factor):
    """Halving is another calculation, in OpenCV as here."""
    image = np.random.default_rng(0).integers(0, 256, (48, 96, 3), dtype=np.uint8)
    assert_as_opencv(image, (round(96 * factor), round(48 * factor)))
    assert_as_opencv(image, (round(96 * factor), 48))
    assert_as_opencv(image, (96, round(48 * factor)))


@pytest.mark.parametrize(
    ('size', 'new'), [((640, 480), (800, 600)), ((640, 427), (1000, 600)), ((1999, 1333), (341, 256))]
)
def test_sizes_of_detectors(size, new):
    image = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    assert_as_opencv(image, new)


@pytest.mark.parametrize('value', [0, 1, 128, 254, 255])
def test_extreme_values_and_edges(value):
    image = np.full((7, 11, 3), 255 - value, np.uint8)
    image[::2, 1::2] = value
    for size in ((1, 1), (3, 50), (50, 3), (11, 8), (300, 200)):
        assert_as_opencv(image, size)


def test_the_same_size_is_a_copy():
    image = np.zeros((4, 5, 3), np.uint8)
    copy = resize_bilinear(image, (5, 4))
    copy[:] = 1
    assert not image.any()
