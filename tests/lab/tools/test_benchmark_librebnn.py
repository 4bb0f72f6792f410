"""Packed files timed by librebnn alone and in ONNX Runtime, in turns."""

import re

import pytest

from lab.tools import benchmark_librebnn
from rebnn_mm.benchmark.timing import open_timed
from rebnn_mm.deploy.zoo import zoo_path
from rebnn_mm.native_library import load_kernels

pytestmark = pytest.mark.skipif(load_kernels() is None, reason='librebnn is not built')


def run(monkeypatch, *words):
    monkeypatch.setattr('sys.argv', ['benchmark_librebnn', *map(str, words), '--blocks', '2', '--runs', '2'])
    benchmark_librebnn.main()


def test_classifiers_and_detectors_take_turns_with_onnx_runtime(monkeypatch, capsys):
    run(monkeypatch, 'zoo:cifar10-resnet20=32x32', 'zoo:blood-cells-nano=64x96')
    line = r'  {}: [\d.e-]+ ms \(shortest [\d.e-]+\), [\d.]+ \([\d.]+ to [\d.]+\) of librebnn\n'
    both = line.format('librebnn') + line.format('ONNX Runtime')
    expected = f'zoo:cifar10-resnet20, 32x32\n{both}zoo:blood-cells-nano, 64x96\n{both}'
    assert re.fullmatch(expected, capsys.readouterr().out)


def test_real_files_take_turns_too(monkeypatch, capsys):
    classifier = zoo_path('zoo:cifar10-resnet20')
    monkeypatch.setattr(
        benchmark_librebnn, 'open_timed', lambda path, packed, threads: open_timed(path, True, threads)
    )
    run(monkeypatch, f'{classifier}=32x32', '--real', classifier)
    assert capsys.readouterr().out.splitlines()[-1].startswith(f'  {classifier.name}: ')


def test_what_librebnn_refuses_is_said(monkeypatch, capsys, tmp_path):
    path = tmp_path / 'short.onnx'
    path.write_bytes(zoo_path('zoo:blood-cells-nano').read_bytes()[:1000])
    with pytest.raises(SystemExit):
        run(monkeypatch, path)
    assert str(path) in capsys.readouterr().err
