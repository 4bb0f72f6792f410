"""The kernels prepare an image to the last bit as NumPy does."""

import ctypes

import numpy as np
import pytest

from rebnn_mm import native_library
from rebnn_mm.deploy import prepare
from rebnn_mm.deploy.preprocess import Preprocess, prepare_by_numpy
from tests.scripts import run_code

NORM = '"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]'
STEPS = {
    'classifier': f'{{"channels": "rgb", "resize": {{"mode": "short_edge", "size": 64}}, "crop": [56, 56], {NORM}}}',
    'detector': f'{{"channels": "bgr", "resize": {{"mode": "keep_ratio", "size": [133, 80]}}, {NORM}, '
    '"pad": {"divisor": 32, "value": 0.5}}',
    'exact': '{"channels": "bgr", "resize": {"mode": "exact", "size": [30, 50]}}',
    'as it is': '{"channels": "rgb", "crop": [40, 300], "pad": {"divisor": 16, "value": -3}}',
}
SIZES = [(48, 64), (128, 128), (100, 60), (56, 56), (1, 1), (2, 3), (9, 700), (31, 17)]


@pytest.fixture
def built():
    if prepare.kernels() is None:
        pytest.skip('librebnn is not built')


@pytest.mark.parametrize('name', STEPS)
def test_every_number_is_numpys(built, name):
    steps_of = Preprocess.parse(STEPS[name])
    random = np.random.default_rng(0)
    for height, width in SIZES:
        image = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
        found, expected = steps_of(image), steps_of(image, kernels=False)
        assert np.array_equal(found.image, expected.image) and found[1:] == expected[1:]


def test_views_change_nothing(built):
    steps_of = Preprocess.parse(STEPS['detector'])
    image = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    views = [image, image[3:-2, 5:-7], image[:, ::-1], image[::2], image[::-1], image[..., ::-1]]
    for view in (*views, image[7][None], image[:, 7:8].transpose(1, 0, 2)):
        expected = prepare_by_numpy(view, steps_of.steps(view.shape[1], view.shape[0]))
        assert np.array_equal(steps_of(view).image, expected)


def test_an_image_beyond_the_kernels_is_numpys(built):
    steps = Preprocess.parse(STEPS['exact']).steps(9, 9)._replace(resized=(1, 1 << 29))
    assert prepare.prepare_image(np.zeros((9, 9, 3), np.uint8), steps) is None


def test_a_library_without_these_kernels_is_left_alone(monkeypatch, tmp_path):
    class Old:
        def rebnn_abi_version(self):
            return native_library.ABI

    prepare.kernels.cache_clear()
    monkeypatch.setattr(ctypes, 'CDLL', lambda path: Old())
    try:
        assert prepare.kernels() is None
        image = np.zeros((9, 9, 3), np.uint8)
        assert Preprocess.parse('{"channels": "rgb"}')(image).image.shape == (1, 3, 9, 9)
    finally:
        prepare.kernels.cache_clear()


def test_numpy_prepares_where_an_unknown_instruction_set_is_asked_for(built, monkeypatch):
    monkeypatch.setenv('REBNN_ISA', 'mmx')
    done = run_code('from rebnn_mm.deploy import prepare; assert prepare.kernels() is None')
    assert done.returncode == 0, done.stderr
