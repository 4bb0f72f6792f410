"""What is known of the processor."""

from rebnn_mm.utils import machine

TWO = """processor\t: 0
model name\t: Some Processor @ 2.50GHz
flags\t\t: fpu avx2 avx512_bf16

processor\t: 1
flags\t\t: fpu
"""


def test_the_first_processor_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, 'CPUINFO', tmp_path / 'cpuinfo')
    machine.CPUINFO.write_text(TWO)
    assert machine.processor_flags() == {'fpu', 'avx2', 'avx512_bf16'}


def test_where_linux_says_nothing_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, 'CPUINFO', tmp_path / 'cpuinfo')
    assert not machine.processor_flags()
    machine.CPUINFO.write_text('processor\t: 0\nFeatures\t: fp asimd\n')
    assert not machine.processor_flags()
