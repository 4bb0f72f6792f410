"""A run in a process of its own: what it costs, what it says, how it is stopped."""

import sys
import time

import pytest

from rebnn_mm.experiments.child import Child, last_line, read_costs

BUSY = 'import time\nwhile time.process_time() < {}: pass'
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, '-c', {BUSY.format(0.5)!r}])
"""


def ended(child):
    while child.finished() is None:
        time.sleep(0.02)
    return child.finished()


def test_processor_time_counts_what_the_run_has_started(tmp_path):
    assert ended(Child([sys.executable, '-c', PARENT], tmp_path, tmp_path)) == 0
    cost = read_costs(tmp_path)
    assert 0.5 <= cost['cpu_s'] < 3 and cost['wall_s'] >= 0.4 and cost['parts'] == 1


def test_parts_add_up(tmp_path):
    for _ in range(2):
        ended(Child([sys.executable, '-c', BUSY.format(0.3)], tmp_path, tmp_path))
    cost = read_costs(tmp_path)
    assert cost['cpu_s'] >= 0.6 and cost['parts'] == 2


def test_a_stopped_run_and_its_children_are_gone(tmp_path):
    code = "import subprocess; subprocess.run(['sleep', '100'])"
    child = Child([sys.executable, '-c', code], tmp_path, tmp_path)
    child.stop()
    assert child.finished() not in (None, 0)
    assert read_costs(tmp_path)['parts'] == 1
    child.stop()
    assert read_costs(tmp_path)['parts'] == 1


def test_a_run_that_does_not_listen_is_killed(tmp_path):
    code = (
        'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print("on", flush=True); time.sleep(99)'
    )
    child = Child([sys.executable, '-c', code], tmp_path, tmp_path)
    while last_line(tmp_path) != 'on':
        time.sleep(0.02)
    child.stop(patience=0.2)
    assert child.finished() == -9 and read_costs(tmp_path)['parts'] == 1


@pytest.mark.parametrize(('printed', 'last'), [('', 'it printed nothing'), ('one\\n two \\n\\n', 'two')])
def test_last_line(tmp_path, printed, last):
    ended(Child([sys.executable, '-c', f'import sys; sys.stderr.write("{printed}")'], tmp_path, tmp_path))
    assert last_line(tmp_path) == last
