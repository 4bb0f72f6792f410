"""What is said about a machine and its measurement, and about a processor that is slowed down."""

import os
from functools import partial

import pytest

from rebnn_mm.deploy import measurement
from tests.deploy.board import write_board


@pytest.fixture
def board(tmp_path):
    return write_board(tmp_path)


@pytest.mark.parametrize(
    ('file', 'text', 'warning'),
    [
        ('cpufreq/scaling_governor', 'ondemand', 'The governor is ondemand'),
        ('cpufreq/scaling_cur_freq', '1000000', 'the clock was 1.00 of 2.02 GHz'),
    ],
)
def test_a_clock_that_may_vary_is_reported(board, file, text, warning):
    (board / 'sys/devices/system/cpu/cpu2' / file).write_text(text)
    now = measurement.conditions(2, board)
    assert [warning in sentence for sentence in measurement.warnings_of(now, now, {'a': [1.0] * 9})] == [True]
    quiet = measurement.conditions(1, board)
    assert measurement.warnings_of(quiet, quiet, {'a': [1.0] * 9}) == []


def test_a_processor_that_is_slowed_down_is_reported(board):
    before = measurement.conditions(0, board)
    (board / 'sys/class/thermal/cooling_device0/cur_state').write_text('3')
    (board / 'proc/loadavg').write_text('2.50 1 1 1/1 1')
    after = measurement.conditions(0, board)
    found = measurement.warnings_of(before, after, {'a': [1.0] * 6 + [1.2] * 3})
    assert len(found) == 2 and 'cpufreq-cpu0' in found[0] and '1.20 times' in found[1]
    assert 'load 2.50' in measurement.warnings_of(after, after, {'a': [1.0]})[0]


def test_the_fastest_core_is_chosen(board, monkeypatch):
    (board / 'sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq').write_text('2400000')
    bound = []
    monkeypatch.setattr(os, 'sched_getaffinity', lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(os, 'sched_setaffinity', lambda _, cores: bound.append(cores))
    assert (measurement.pin(None, board), measurement.pin(1, board), bound) == (2, 1, [{2}, {1}])
    with pytest.raises(ValueError, match=r'--core 7 is not available here; choose one of 0, 1, 2, 3\.'):
        measurement.pin(7, board)


def test_a_system_that_tells_nothing_is_described_as_far_as_it_goes(tmp_path):
    assert measurement.describe_cpu(0, tmp_path)['cpuinfo'] == {}
    now = measurement.conditions(0, tmp_path)
    assert 'The CPU clock cannot be read here' in measurement.warnings_of(now, now, {'a': [1.0]})[0]


def test_each_turn_begins_with_a_run_that_does_not_count():
    calls = []
    times = measurement.measure({name: partial(calls.append, name) for name in 'ab'}, measurement.BLOCK + 1)
    assert {name: len(values) for name, values in times.items()} == dict.fromkeys('ab', measurement.BLOCK + 1)
    assert ''.join(calls) == 'a' * (measurement.BLOCK + 1) + 'b' * (measurement.BLOCK + 1) + 'aabb'
