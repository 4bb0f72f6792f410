"""Files written by this version stay readable, and what is written does not change unnoticed."""

import hashlib

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

pytest.importorskip('mmpretrain')

from rebnn_mm.deploy import load
from rebnn_mm.deploy.session import library_available
from tests.export.golden import CHANNELS_FIRST, PATH, golden_export
from tests.tolerances import FLOAT32_ROUNDING

SHA256 = '3ae6b9b8170e5c900b07b57a37324f2e3dd80e4fcad66f0d4d2789f07e86f648'
SCORES = {4: 0.626488, 0: 0.253779, 3: 0.065559, 1: 0.031849, 2: 0.022324}
"""Of PyTorch, to six places, when the file was written."""


def picture():
    return (np.arange(16 * 12 * 3).reshape(16, 12, 3) * 7 % 256).astype(np.uint8)


def content(model):
    """Everything in a graph that matters, without the names of values."""
    numbers = {}
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}

    def operand(name):
        if name in constants:
            return constants[name].dtype.name, constants[name].shape, constants[name].tobytes()
        return numbers.setdefault(name, len(numbers)) if name else None

    nodes = [
        (
            node.domain,
            node.op_type,
            sorted(attribute.SerializeToString() for attribute in node.attribute),
            [operand(name) for name in node.input],
            [operand(name) for name in node.output],
        )
        for node in model.graph.node
    ]
    names = [node.name for node in model.graph.node if node.domain]
    functions = [function.SerializeToString(deterministic=True) for function in model.functions]
    skipped = ('rebnn.producer', 'rebnn.file_sha256')
    metadata = {entry.key: entry.value for entry in model.metadata_props if entry.key not in skipped}
    return nodes, names, functions, metadata, model.ir_version


def test_the_file_is_the_one_that_was_written():
    assert hashlib.sha256(PATH.read_bytes()).hexdigest() == SHA256


@pytest.mark.parametrize('path', [PATH, CHANNELS_FIRST], ids=['today', 'channels first'])
@pytest.mark.parametrize('library', [False, True])
def test_the_file_runs_and_gives_the_same_scores(path, library):
    if library and not library_available():
        pytest.skip('the library with our kernels is not built')
    labels = load(path, use_library=library, size=(12, 16))(picture())
    assert {label.number: round(label.score, 6) for label in labels} == pytest.approx(SCORES, abs=FLOAT32_ROUNDING)


@pytest.mark.skipif(not library_available(), reason='the library with our kernels is not built')
@pytest.mark.parametrize('path', [PATH, CHANNELS_FIRST], ids=['today', 'channels first'])
def test_a_file_without_fast_gives_the_same_bits_with_the_library_and_without_it(path):
    with_it, without = (load(path, use_library=library, size=(12, 16))(picture()) for library in (True, False))
    assert list(with_it) == list(without)


def test_the_exporter_writes_the_same_today():
    golden, today = onnx.load(PATH), onnx.ModelProto.FromString(golden_export().data)
    for part, one, other in zip(
        ('nodes', 'names', 'functions', 'metadata', 'IR'), content(golden), content(today), strict=True
    ):
        assert one == other, part
