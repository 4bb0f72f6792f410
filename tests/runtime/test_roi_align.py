"""The alignment of regions: kernel and function against ONNX Runtime's own operator, and what is refused."""

import re

import numpy as np
import pytest

from tests.runtime.roi_align_case import TOLERANCE, Feeds, random_case, roi_align_model
from tests.runtime.sessions import open_session
from tests.scripts import run_script

RUNS = ['kernel', 'function']
SETTINGS = {'output_height': 3, 'output_width': 2, 'spatial_scale': 0.25}


def standard(feeds: Feeds, **attributes) -> np.ndarray:
    """What ONNX Runtime's own operator gives, with the channels last."""
    first = feeds | {'X': feeds['X'].transpose(0, 3, 1, 2)}
    (y,) = open_session(roi_align_model(standard=True, **attributes), 'function').run(None, first)
    return y.transpose(0, 2, 3, 1)


def assert_close(y: np.ndarray, wanted: np.ndarray, x: np.ndarray) -> None:
    np.testing.assert_allclose(y, wanted, rtol=0, atol=TOLERANCE * np.abs(x).max(initial=1))


def on_one_map(*rois: list[float], channels: int = 5) -> Feeds:
    x = np.random.default_rng(0).normal(size=(1, 9, 12, channels)).astype(np.float32)
    return {'X': x, 'rois': np.array(rois, np.float32).reshape(-1, 4), 'batch_indices': np.zeros(len(rois), np.int64)}


@pytest.mark.parametrize('run', RUNS)
@pytest.mark.parametrize('seed', range(40))
def test_it_equals_the_standard_operator(run, seed):
    feeds, attributes = random_case(np.random.default_rng(seed))
    (y,) = open_session(roi_align_model(**attributes), run).run(None, feeds)
    assert_close(y, standard(feeds, **attributes), feeds['X'])


REGIONS = {
    'inside': [4.0, 4.0, 30.0, 25.0],
    'the whole map': [0.0, 0.0, 48.0, 36.0],
    'larger than the map': [-40.0, -30.0, 90.0, 80.0],
    'beyond the map': [400.0, 4.0, 440.0, 25.0],
    'far beyond the map': [-1e30, 4.0, -1e30, 25.0],
    'at the last pixel': [47.0, 35.0, 49.0, 37.0],
    'of no size': [17.0, 9.0, 17.0, 9.0],
    'of no width': [17.0, 9.0, 17.0, 29.0],
    'the wrong way round': [30.0, 25.0, 4.0, 4.0],
}


@pytest.mark.parametrize('ratio', [0, 1, 4])
@pytest.mark.parametrize('mode', ['half_pixel', 'output_half_pixel'])
@pytest.mark.parametrize('name', REGIONS)
def test_regions_at_the_borders(name, mode, ratio):
    feeds = on_one_map(REGIONS[name])
    attributes = SETTINGS | {'sampling_ratio': ratio, 'coordinate_transformation_mode': mode}
    (y,) = open_session(roi_align_model(**attributes)).run(None, feeds)
    assert_close(y, standard(feeds, **attributes), feeds['X'])


def test_a_region_half_the_wrong_way_round_has_no_samples():
    (y,) = open_session(roi_align_model(**SETTINGS)).run(None, on_one_map([4.0, 25.0, 30.0, 4.0]))
    assert not y.any()


def test_a_bin_of_whole_pixels_is_their_mean():
    # Bins of 2x3 pixels, and as many samples, each in the middle of a pixel.
    feeds = on_one_map([0.0, 0.0, 12.0, 8.0], channels=70)
    (y,) = open_session(roi_align_model(output_height=4, output_width=4, spatial_scale=1.0)).run(None, feeds)
    mean = feeds['X'][:, :8].reshape(1, 4, 2, 4, 3, 70).astype(np.float64).mean((2, 4))
    np.testing.assert_allclose(y, mean, rtol=0, atol=1e-6)


@pytest.mark.parametrize('run', RUNS)
def test_defaults_are_those_of_the_standard_operator(run):
    feeds = on_one_map([0.0, 0.0, 30.0, 30.0])
    (y,) = open_session(roi_align_model(**SETTINGS), run).run(None, feeds)
    assert_close(y, standard(feeds, **SETTINGS), feeds['X'])


@pytest.mark.parametrize('run', RUNS)
def test_there_may_be_no_region(run):
    (y,) = open_session(roi_align_model(**SETTINGS), run).run(None, on_one_map())
    assert y.shape == (0, 3, 2, 5)


def test_there_may_be_no_channel():
    (y,) = open_session(roi_align_model(**SETTINGS)).run(None, on_one_map([0.0, 0.0, 9.0, 9.0], channels=0))
    assert y.shape == (1, 3, 2, 0)


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(-20, 220, (50, 2, 2)), axis=1).reshape(50, 4)
    feeds = {
        'X': rng.normal(size=(2, 40, 50, 64)).astype(np.float32),
        'rois': corners.astype(np.float32),
        'batch_indices': rng.integers(0, 2, 50),
    }
    one, several = (open_session(roi_align_model(**SETTINGS), threads=count).run(None, feeds)[0] for count in (1, 3))
    assert np.array_equal(one, several)


@pytest.mark.parametrize(
    ('attributes', 'sentence'),
    [
        ({'output_height': 0}, 'the attribute output_height is 0; it must be positive'),
        ({'output_width': 1.5}, 'the attribute output_width must be an integer.'),
        ({'sampling_ratio': -1}, 'sampling_ratio is -1; it must be from 0 to 1024.'),
        ({'sampling_ratio': 1025}, 'sampling_ratio is 1025; it must be from 0 to 1024.'),
        ({'spatial_scale': 0.0}, 'spatial_scale is 0; it must be positive and finite.'),
        ({'spatial_scale': float('nan')}, 'spatial_scale is nan; it must be positive and finite.'),
        ({'spatial_scale': 1}, 'the attribute spatial_scale must be a real number.'),
        (
            {'coordinate_transformation_mode': 'asymmetric'},
            'the attribute coordinate_transformation_mode must be half_pixel or output_half_pixel.',
        ),
    ],
)
def test_wrong_attributes(attributes, sentence):
    with pytest.raises(Exception, match=re.escape(f"RealRoiAlign 'regions': {sentence}")):
        open_session(roi_align_model(**SETTINGS | attributes))


WRONG_INPUTS = [
    ({'X': np.zeros((9, 12, 5), np.float32)}, 'X has the shape [9, 12, 5]; it must have 4 dimensions.'),
    ({'X': np.zeros((1, 0, 12, 5), np.float32)}, "the map's height is 0; it must be from 1 to"),
    ({'rois': np.zeros((1, 5), np.float32)}, 'rois has the shape [1, 5]; it must be [R, 4].'),
    ({'rois': np.zeros(4, np.float32)}, 'rois has the shape [4]; it must be [R, 4].'),
    ({'batch_indices': np.zeros(2, np.int64)}, 'batch_indices has the shape [2]; it must be [1].'),
    ({'batch_indices': np.int64([1])}, 'region 0 is of image 1, but there are 1.'),
    ({'batch_indices': np.int64([-1])}, 'region 0 is of image -1, but there are 1.'),
    ({'rois': np.float32([[0, 0, np.nan, 1]])}, 'region 0 reaches from 0 to nan; its corners must be finite'),
    ({'rois': np.float32([[0, np.inf, 1, np.inf]])}, 'region 0 reaches from inf to inf; its corners must be finite'),
    ({'rois': np.float32([[0, 0, 1, 1e8]])}, 'region 0 reaches from 0 to 1e+08; its corners must be finite'),
]


@pytest.mark.parametrize(('change', 'sentence'), WRONG_INPUTS, ids=lambda value: str(value)[:40])
def test_wrong_inputs(change, sentence):
    running, feeds = open_session(roi_align_model(**SETTINGS)), on_one_map([0.0, 0.0, 30.0, 30.0])
    with pytest.raises(Exception, match=re.escape("RealRoiAlign 'regions': ") + '.*' + re.escape(sentence)):
        running.run(None, feeds | change)
    assert running.run(None, feeds)[0].shape == (1, 3, 2, 5)


@pytest.mark.parametrize('isa', ['avx2', 'portable'])
def test_other_instruction_sets_give_the_same(isa, tmp_path, monkeypatch):
    script = tmp_path / 'check.py'
    script.write_text('import tests.runtime.test_roi_align as t; t.check_all()')
    monkeypatch.setenv('REBNN_ISA', isa)
    done = run_script(script)
    if 'which this processor lacks' in done.stderr or 'is not one of' in done.stderr:
        pytest.skip(f'no {isa} here')
    assert done.returncode == 0, done.stdout + done.stderr


def check_all() -> None:
    """Compare random cases with the standard operator; for another process."""
    for seed in range(40):
        test_it_equals_the_standard_operator('kernel', seed)
