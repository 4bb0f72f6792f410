"""Means and intervals against numbers worked out by hand."""

import pytest

from lab.study.interval import differences, estimate

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


def test_two_rows_are_compared_seed_by_seed():
    found = differences({'a': {0: 52.0, 1: 58.0, 2: 61.0}, 'b': {0: 51.0, 1: 56.0, 2: 58.0}}, 'b')
    # 1, 2, 3: what the seeds have in common does not count.
    assert list(found) == ['a'] and found['a'].n == 3
    assert found['a'].mean == pytest.approx(2.0)
    assert found['a'].half_width == pytest.approx(T[2] / 3**0.5, rel=1e-3)


def test_the_scatter_is_that_of_all_rows():
    # Two seeds, three rows. Seed 1 adds 2 + (1 - 1 + 0) / 3 = 2; what is left is +-0.5, +-0.5 and 0 twice, so the
    # squares add up to 1 with 6 - 4 = 2 degrees of freedom, and a difference of two means varies by 2 * 0.5 / 2.
    found = differences({'a': {0: 50.0, 1: 53.0}, 'b': {0: 40.0, 1: 41.0}, 'c': {0: 30.0, 1: 32.0}}, 'c')
    assert found['a'].mean == pytest.approx(20.5) and found['b'].mean == pytest.approx(9.5)
    for row in found.values():
        assert row.half_width == pytest.approx(T[2] * 0.5**0.5, rel=1e-3)


def test_a_row_of_one_seed_is_set_right_by_that_seed():
    scores = {'a': {0: 52.0, 1: 58.0}, 'b': {0: 51.0, 1: 57.0}, 'c': {1: 60.0}}
    # Seed 1 is three points above the mean of both.
    found = differences(scores, 'a')
    assert found['c'].mean == pytest.approx(2.0) and found['c'].n == 1
    assert found['c'].half_width == pytest.approx(0, abs=1e-9)


def test_without_a_repetition_there_is_no_interval():
    found = differences({'a': {0: 52.0}, 'b': {0: 51.0}}, 'b')
    assert found['a'].text() == '1.0 (n = 1)' and found['a'].verdict() == 'open'


def test_rows_without_a_seed_in_common_are_not_compared():
    assert differences({'a': {0: 1.0}, 'b': {1: 1.0}, 'c': {}}, 'b') == {}
    assert differences({'a': {0: 1.0}, 'b': {}}, 'b') == {}
    # Through a third row they are.
    assert set(differences({'a': {0: 1.0}, 'b': {1: 1.0}, 'c': {0: 1.0, 1: 1.0}}, 'b')) == {'a', 'c'}


@pytest.mark.parametrize(
    ('values', 'verdict'),
    [([2.0, 2.1, 1.9], 'above'), ([-2.0, -2.1, -1.9], 'below'), ([2.0, 0.1, -1.0], 'open'), ([9.0], 'open')],
)
def test_a_difference_is_decided_where_its_interval_leaves_zero_out(values, verdict):
    assert estimate(values).verdict() == verdict
