"""What is read from the tables of the runtime's benchmark, and what is said if it cannot be built."""

import io

import pytest
from rich.console import Console

from lab.tools import convolutions

# As runtime/tests/bench_conv.cpp prints it; tests/runtime runs the program itself.
PRINTED = """\
portable
  layer, 3x3                   convolution               block          from reals
   64 ->  64, 56 /1       1.142 ms  101 G/s    1.607 ms   72 G/s    1.700 ms   68 G/s
  all 16 of ResNet-18    13.326 ms  126 G/s   16.895 ms   99 G/s   17.581 ms   95 G/s
  stem, 224x224           2.247 ms
  portable takes                 1.00 x               1.00 x               1.00 x
avx512
  layer, 3x3                   convolution               block          from reals
   64 ->  64, 56 /1       0.071 ms 1637 G/s    0.095 ms 1218 G/s    0.111 ms 1041 G/s
  512 -> 512,  7 /1       0.043 ms 2671 G/s    0.046 ms 2489 G/s    0.048 ms 2418 G/s
  all 16 of ResNet-18     0.813 ms 2062 G/s    0.978 ms 1714 G/s    1.106 ms 1515 G/s
  stem, 224x224           0.534 ms
  portable takes                16.39 x              17.28 x              15.89 x
  popcount limit: 2915 G/s
  reached                        70.7 %               58.8 %               52.0 %
  reached, no border             65.2 %               54.2 %               47.9 %
"""


def test_tables_are_read():
    found = convolutions.read_tables(PRINTED)
    assert list(found) == ['portable', 'avx512']
    assert found['portable']['ms']['block'] == 16.895 and 'limit' not in found['portable']
    avx512 = found['avx512']
    assert avx512['limit'] == 2915e9
    assert avx512['ratio'] == {'convolution': 0.707, 'block': 0.588, 'from reals': 0.52}
    assert avx512['ratio_no_border']['from reals'] == 0.479
    assert list(avx512['layers']) == ['64 -> 64, 56 /1', '512 -> 512, 7 /1']
    assert avx512['layers']['512 -> 512, 7 /1']['convolution'] == 0.043


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match='no runtime sources at .*clone'):
        convolutions.build(tmp_path, tmp_path / 'build')
    (tmp_path / 'CMakeLists.txt').write_text('')
    monkeypatch.setattr(convolutions.shutil, 'which', lambda name: None)
    with pytest.raises(ValueError, match='apt-get install cmake g\\+\\+'):
        convolutions.build(tmp_path, tmp_path / 'build')


def test_a_program_that_fails_is_named(tmp_path):
    program = tmp_path / 'bench_conv'
    program.write_text('#!/bin/sh\necho no kernels >&2\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(ValueError, match='bench_conv failed: no kernels'):
        convolutions.measure(program, 1)


def test_convolutions_stand_beside_the_limit_of_the_processor():
    found = {
        'avx2': dict(limit=2e12, ms={'all': 0.9}, ratio={'all': 0.79}, ratio_no_border={'all': 0.8}),
        'portable': dict(ms={'all': 4.5}),
    }
    text = io.StringIO()
    Console(file=text, width=150).print(convolutions.convolution_table(found))
    rows = [[cell.strip() for cell in line.split('│')[1:-1]] for line in text.getvalue().splitlines()]
    assert ['avx2 (limit 2,000 G products/s)', 'all', '0.900', '79 %', '80 %'] in rows
    assert ['portable', 'all', '4.500', '', ''] in rows
