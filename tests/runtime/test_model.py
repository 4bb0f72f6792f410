"""Packed classifiers by librebnn alone: the bits of ONNX Runtime, and what is refused."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from rebnn_mm.benchmark.timing import open_timed
from rebnn_mm.deploy.onnx_file import remove_seal, seal
from rebnn_mm.deploy.zoo import zoo_path
from rebnn_mm.export.options import Options
from rebnn_mm.native_library import load_kernels

CLASSIFIER = zoo_path('zoo:cifar10-resnet20')
pytestmark = pytest.mark.skipif(load_kernels() is None, reason='librebnn is not built')


class Refused(Exception):
    """The sentence of librebnn."""


@contextmanager
def loaded(data: bytes, h: int, w: int) -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p]]:
    """The library and a model in it."""
    library, model = load_kernels(), ctypes.c_void_p()
    sizes = [ctypes.c_int64(size) for size in (h, w)]
    status = library.rebnn_model_load(data, ctypes.c_size_t(len(data)), *sizes, ctypes.byref(model))
    if status:
        raise Refused(library.rebnn_last_error().decode())
    try:
        yield library, model
    finally:
        library.rebnn_model_free(model)


def run(data: bytes, image: np.ndarray) -> np.ndarray:
    """The scores of an image."""
    h, w = image.shape[2:]
    with loaded(data, h, w) as (library, model):
        channels, classes, size = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_size_t()
        assert library.rebnn_model_sizes(model, *map(ctypes.byref, (channels, classes, size))) == 0
        assert channels.value == image.shape[1]
        memory = np.full(size.value + 64, 0xFF, np.uint8)  # as reals these are NaN
        aligned = memory[-memory.ctypes.data % 64 :]
        scores = np.empty((1, classes.value), np.float32)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (image, scores, aligned)]
        assert library.rebnn_model_run(model, *pointers, size) == 0, library.rebnn_last_error()
        return scores


def network(classes: int, options: Options) -> bytes:
    """A small packed ResNet for large images."""
    from mmengine.config import Config
    from mmengine.registry import MODELS, init_default_scope

    from rebnn_mm.export.exporter import export
    from rebnn_mm.utils.config_file import get_config_dir
    from tests.export.networks import lively

    init_default_scope('mmpretrain')
    cfg = Config.fromfile(get_config_dir() / 'imagenet/resnet18_rebnn_imagenet.py').model
    cfg.backbone.update(base_channels=16, num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(1,))
    cfg.head.update(in_channels=32, num_classes=classes, topk=(1,))
    return export(lively(MODELS.build(cfg)), options, size=(64, 64), watch=lambda images: ()).data


def compare(data: bytes, folder: Path, *sizes: tuple[int, int]) -> None:
    path = folder / 'model.onnx'
    path.write_bytes(data)
    session = open_timed(path, packed=True, threads=1)
    for seed, size in enumerate(sizes):
        image = np.random.default_rng(seed).normal(size=(1, 3, *size)).astype(np.float32)
        scores, expected = run(data, image), session.run(['scores'], {'image': image})[0]
        if load_kernels().rebnn_isa() == b'avx2':  # elsewhere ONNX Runtime has another order
            assert scores.tobytes() == expected.tobytes()
        elif platform.machine() in ('x86_64', 'aarch64'):
            # Another rounding may turn a sign, and that moves scores.
            np.testing.assert_allclose(scores, expected, rtol=0, atol=0.2)


def test_the_zoo_classifier_has_the_bits_of_onnx_runtime(tmp_path):
    compare(CLASSIFIER.read_bytes(), tmp_path, (32, 32), (31, 45), (8, 9))


@pytest.mark.parametrize('options', [Options(half=True), Options(fast=True)], ids=['half', 'fast'])
def test_networks_for_large_images_have_the_bits_of_onnx_runtime(options, tmp_path):
    data = network(600, options)
    operators = {node.op_type for node in onnx.load_from_string(data).graph.node}
    assert ('RealStem' in operators, 'Cast' in operators) == (options.fast, options.half)
    compare(data, tmp_path, (64, 64), (45, 61))


def changed(change) -> bytes:
    """The classifier with a change of its content, sealed again."""
    model = onnx.load_from_string(remove_seal(CLASSIFIER.read_bytes()))
    change(model.graph)
    return seal(model.SerializeToString())


def rename_operator(graph: onnx.GraphProto) -> None:
    graph.node[-1].op_type = 'LogSoftmax'


def make_a_cycle(graph: onnx.GraphProto) -> None:
    graph.node[1].input[0] = graph.node[-1].output[0]


def ask_for_a_huge_border(graph: onnx.GraphProto) -> None:
    (pads,) = (attribute for attribute in graph.node[1].attribute if attribute.name == 'pads')
    pads.ints[0] = 1 << 40


def state_another_size(graph: onnx.GraphProto) -> None:
    graph.initializer[0].dims[0] += 1


def give_a_name_twice(graph: onnx.GraphProto) -> None:
    graph.node[-1].output[0] = graph.node[-2].output[0]


def add_an_attribute(graph: onnx.GraphProto) -> None:
    graph.node[-1].attribute.append(onnx.helper.make_attribute('temperature', 2))


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (rename_operator, 'the node LogSoftmax .* is none that this reader knows'),
        (make_a_cycle, 'the node Conv .* does not read the image'),
        (ask_for_a_huge_border, 'the node Conv .* out of range'),
        (state_another_size, 'other bytes than its size says'),
        (give_a_name_twice, 'gives a name that is there already'),
        (add_an_attribute, "an attribute 'temperature' that the exporter does not write"),
    ],
    ids=lambda value: getattr(value, '__name__', ''),
)
def test_what_the_exporter_does_not_write_is_refused(change, sentence):
    with pytest.raises(Refused, match=sentence), loaded(changed(change), 32, 32):
        pass


def test_a_detector_is_refused():
    with (
        pytest.raises(Refused, match='not a classifier; run it with ONNX Runtime'),
        loaded(zoo_path('zoo:blood-cells-nano').read_bytes(), 64, 64),
    ):
        pass
