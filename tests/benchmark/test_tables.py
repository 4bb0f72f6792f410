"""What people see of a report: each number in its row."""

from io import StringIO

import pytest
from rich.console import Console

from rebnn_mm.benchmark.tables import MOST_NODES, show


def row(ms):
    return dict(megabytes=4.25, median_ms=ms, p90_ms=1.5 * ms)


@pytest.fixture
def entry():
    """A network that was timed with two sets of kernels, and traced."""
    packed = {'rows': {'packed': row(3.0), 'fast': row(2.0)}, 'warnings': []}
    packed |= {'ratio': 4.0, 'ratio_interval': [3.9, 4.1], 'ratio_fast': 6.0, 'ratio_fast_interval': [5.9, 6.2]}
    other = {
        'rows': {'packed': row(6.0)},
        'warnings': ['the clock changed'],
        'ratio': 2.0,
        'ratio_interval': [1.9, 2.1],
    }
    nodes = [[f'conv{number}', 'BinaryConv', 0.1] for number in range(MOST_NODES + 1)]
    return packed | {
        'rows': {'fp32': row(12.0), **packed['rows']},
        'machine': dict(
            cpuinfo={'model name': 'A Processor', 'flags': 'fpu avx2'}, board='', machine='x86_64', cores=2
        ),
        'versions': dict(onnxruntime='1.31.1', kernels='avx2'),
        'settings': dict(threads=1, rounds=10, warm_up=0.1, size=[48, 64]),
        'date': '2026-11-23',
        'other_kernels': {'portable': other},
        'where': {'packed': dict(total_ms=2.0, ours=0.75, operators={'BinaryConv': 1.5, 'Conv': 0.5}, nodes=nodes)},
    }


@pytest.fixture
def printed():
    def run(report):
        out = StringIO()
        show(report, Console(file=out, width=160))
        return out.getvalue()

    return run


def cells(text, *beginning):
    """Of the one row that begins so."""
    rows = [[cell.strip() for cell in line.strip('│┃').split('│')] for line in text.splitlines() if '│' in line]
    (found,) = [row for row in rows if row[: len(beginning)] == list(beginning)]
    return found[len(beginning) :]


def test_each_network_has_its_conditions_times_and_warnings(printed, entry):
    text = printed({'net': entry})
    assert 'x86_64: A Processor, 2 cores, avx2\n' in text and 'onnxruntime 1.31.1, kernels avx2' in text
    assert 'net, an image of 64 x 48' in text and 'Warning: the clock changed' in text
    assert cells(text, 'full-precision, fp32') == ['', '4.25', '12.00', '18.00', '', '']
    assert cells(text, 'packed, exact', 'avx2') == ['4.25', '3.00', '4.50', '4.00 (3.90 to 4.10)', '']
    assert cells(text, 'packed, --fast', 'avx2') == ['4.25', '2.00', '3.00', '6.00 (5.90 to 6.20)', '']
    assert cells(text, 'packed, exact', 'portable')[1] == '6.00'


def test_where_the_time_goes_is_cut_to_the_longest(printed, entry):
    text = printed({'net': entry})
    assert 'net, packed, exact: 2.00 ms with tracing, 75 % in our operators' in text
    assert cells(text, 'BinaryConv') == ['1.500', '75', 'conv0 (BinaryConv)', '0.100']
    assert cells(text, '', '', '', 'conv11 (BinaryConv)') == ['0.100'] and 'conv12' not in text
