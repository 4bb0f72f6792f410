"""Anchors that are chosen for boxes."""

import numpy as np
import pytest

from rebnn_mm.analysis.anchor_choice import choose_anchors, describe_generator_change, equal_classes, fit_of


def test_overlap_with_the_nearest_anchor_is_that_of_boxes_at_one_centre():
    sides = np.array([[32.0, 32.0], [64.0, 64.0], [16.0, 64.0]])
    fit = fit_of(sides, [2, 4], [1.0], 16)
    # the third: 16 x 32 in common of 32 x 32 with 16 x 64
    assert fit.overlap == pytest.approx((1 + 1 + 512 / (1024 + 1024 - 512)) / 3)
    assert fit.covered == pytest.approx(2 / 3)


def test_ratio_is_height_over_width_and_area_that_of_the_scale():
    assert fit_of(np.array([[16.0, 64.0]]), [2], [4.0], 16).overlap == pytest.approx(1)
    assert fit_of(np.array([[64.0, 16.0]]), [2], [0.25], 16).overlap == pytest.approx(1)


def test_boxes_of_one_shape_need_one_ratio_and_long_ones_several():
    rng = np.random.default_rng(0)
    side = np.exp(rng.uniform(np.log(16), np.log(256), 1000))
    square = choose_anchors(np.stack([side, side], axis=1), 16)
    assert square.ratios == (1.0,) and square.covered > 0.99
    stretch = np.where(rng.random(1000) < 0.5, 0.4, 2.5)
    long = choose_anchors(np.stack([side / np.sqrt(stretch), side * np.sqrt(stretch)], axis=1), 16)
    assert min(long.ratios) < 0.6 and max(long.ratios) > 1.6 and long.covered > 0.95


def test_one_box_is_enough():
    chosen = choose_anchors(np.array([[20.0, 40.0]]), 16)
    assert chosen.covered == 1 and len(chosen.scales) == 1


def test_a_rare_class_of_another_size_gets_its_anchors():
    sides = np.concatenate([np.full((1000, 2), 50.0), np.full((10, 2), 16.0), np.full((10, 2), 200.0)])
    weights = equal_classes(['red'] * 1000 + ['small'] * 10 + ['large'] * 10)
    alike, by_number = choose_anchors(sides, 16, weights), choose_anchors(sides, 16)
    assert alike.covered == pytest.approx(1)
    rare = fit_of(sides[1000:], by_number.scales, by_number.ratios, 16)
    assert rare.covered < 0.6


def test_anchors_that_leave_more_boxes_uncovered_are_not_taken():
    """They overlap more with the many boxes, and the base's also cover the few large ones."""
    sides = np.concatenate([np.full((96, 2), 45.0), np.full((4, 2), 180.0)])
    changes, old, new = describe_generator_change(dict(scales=[33 / 16, 135 / 16], ratios=[1.0], strides=[16]), sides)
    assert old.covered == 1 > choose_anchors(sides, 16).covered and choose_anchors(sides, 16).fit > old.fit
    assert new is old and not changes


def test_scales_of_a_pyramid_that_leave_more_boxes_uncovered_are_not_taken():
    sides = np.concatenate([np.full((90, 2), 40.0), np.full((10, 2), 15.0)])
    pyramid = dict(scales=[1.0], ratios=[1.0], strides=[18, 29])
    _, old, new = describe_generator_change(pyramid, sides)
    assert old.covered == 1 and new.covered == 1
