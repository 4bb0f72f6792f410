"""What is said about the machine that numbers come from."""

import platform

from lab.machine import processor, versions

TWO = """processor\t: 0
model name\t: Some Processor @ 2.50GHz

processor\t: 1
model name\t: Another: one
"""


def test_the_first_processor_counts(tmp_path):
    assert processor(tmp_path) in (platform.processor(), platform.machine())
    (tmp_path / 'proc').mkdir()
    (tmp_path / 'proc/cpuinfo').write_text(TWO)
    assert processor(tmp_path) == 'Some Processor @ 2.50GHz'


def test_packages_that_are_not_installed_are_left_out():
    assert list(versions(['numpy', 'no_such_package'])) == ['python', 'numpy']
