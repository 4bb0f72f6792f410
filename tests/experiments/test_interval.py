"""Means and intervals against numbers worked out by hand."""

import pytest

from rebnn_mm.experiments.interval import estimate, paired_difference

# Quantiles of Student's t at 0.975, from a printed table.
T = {1: 12.706, 2: 4.303, 4: 2.776}


def test_three_values():
    # Mean 57; deviations -1, 0, 1; s = 1.
    found = estimate([56.0, 57.0, 58.0])
    assert found.mean == 57 and found.n == 3
    assert found.half_width == pytest.approx(T[2] / 3**0.5, rel=1e-3)


def test_five_values():
    # Mean 3; squares 4 1 0 1 4, sum 10; s = sqrt(10 / 4).
    assert estimate([1, 2, 3, 4, 5]).half_width == pytest.approx(T[4] * 2.5**0.5 / 5**0.5, rel=1e-3)


def test_two_values_are_hardly_known():
    # s = sqrt(2), half width 12.706 * sqrt(2) / sqrt(2).
    assert estimate([10.0, 12.0]).half_width == pytest.approx(T[1], rel=1e-3)


def test_one_value_has_no_interval():
    assert estimate([3.0]).half_width is None
    assert estimate([3.0]).text() == '3.0 (n = 1)'


def test_no_value():
    with pytest.raises(ValueError, match='no values'):
        estimate([])


def test_another_level():
    # t at 0.95 with two degrees of freedom is 2.920.
    assert estimate([1.0, 2.0, 3.0], level=0.9).half_width == pytest.approx(2.920 / 3**0.5, rel=1e-3)


def test_differences_are_taken_seed_by_seed():
    found = paired_difference({0: 52.0, 1: 58.0, 2: 61.0}, {0: 51.0, 1: 56.0, 2: 58.0, 3: 0.0})
    # 1, 2, 3: what the seeds have in common does not count.
    assert (found.mean, found.n) == (2.0, 3)
    assert found.half_width == pytest.approx(T[2] / 3**0.5, rel=1e-3)


def test_no_seed_in_common():
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


@pytest.mark.parametrize(
    ('values', 'verdict'),
    [([2.0, 2.1, 1.9], 'above'), ([-2.0, -2.1, -1.9], 'below'), ([2.0, 0.1, -1.0], 'open'), ([9.0], 'open')],
)
def test_a_difference_is_decided_where_its_interval_leaves_zero_out(values, verdict):
    assert estimate(values).verdict() == verdict
