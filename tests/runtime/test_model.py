"""Packed classifiers and detectors by librebnn alone: the bits of ONNX Runtime, and what is refused."""

import ctypes
import functools
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from rebnn_mm.benchmark.timing import open_timed
from rebnn_mm.deploy import load
from rebnn_mm.deploy.onnx_file import remove_seal, seal
from rebnn_mm.deploy.zoo import zoo_path
from rebnn_mm.export.options import Options
from rebnn_mm.native_library import load_kernels

CLASSIFIER = zoo_path('zoo:cifar10-resnet20')
DETECTORS = {
    'zoo:blood-cells': 'BloodImage_00021.jpg',
    'zoo:blood-cells-nano': 'BloodImage_00021.jpg',
    'zoo:blood-cells-tiny': 'BloodImage_00021.jpg',
    'zoo:board-defects': 'board.png',
    'zoo:people-and-animals': 'cat.jpg',
}
NANO, TWO_STAGES = zoo_path('zoo:blood-cells-nano'), zoo_path('zoo:blood-cells')
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
        memory, scores = aligned(size.value), np.empty((1, classes.value), np.float32)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (image, scores, memory)]
        assert library.rebnn_model_run(model, *pointers, size) == 0, library.rebnn_last_error()
        return scores


def aligned(size: int) -> np.ndarray:
    memory = np.full(size + 64, 0xFF, np.uint8)  # as reals these are NaN
    return memory[-memory.ctypes.data % 64 :]


def detect(data: bytes, image: np.ndarray, valid_size: tuple[int, int]) -> list[np.ndarray]:
    """Boxes, scores and labels of an image."""
    h, w = image.shape[2:]
    with loaded(data, h, w) as (library, model):
        channels, classes, most, count = (ctypes.c_int64() for _ in range(4))
        size = ctypes.c_size_t()
        assert library.rebnn_model_sizes(model, *map(ctypes.byref, (channels, classes, size))) == 0
        assert library.rebnn_model_most_detections(model, ctypes.byref(most)) == 0
        memory = aligned(size.value)
        found = [
            np.empty((most.value, 4), np.float32),
            np.empty(most.value, np.float32),
            np.empty(most.value, np.int64),
        ]
        arrays = [image, np.array(valid_size, np.int64), *found]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        where = ctypes.c_void_p(memory.ctypes.data)
        status = library.rebnn_model_detect(model, *pointers, ctypes.byref(count), where, size)
        if status:
            raise Refused(library.rebnn_last_error().decode())
        assert not classes.value or found[2][: count.value].max(initial=0) < classes.value
        return [array[: count.value] for array in found]


def network(classes: int, options: Options) -> bytes:
    """A small packed ResNet for large images."""
    from mmengine.config import Config
    from mmengine.registry import MODELS, init_default_scope

    from rebnn_mm.export.examples import Image
    from rebnn_mm.export.exporter import export
    from rebnn_mm.utils.config_file import get_config_dir
    from tests.export.networks import lively

    init_default_scope('mmpretrain')
    cfg = Config.fromfile(get_config_dir() / 'imagenet/resnet18_rebnn_imagenet.py').model
    cfg.backbone.update(base_channels=16, num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(1,))
    cfg.head.update(in_channels=32, num_classes=classes, topk=(1,))
    images = [Image(normal(seed, 64, 64), (64, 64)) for seed in range(2)]
    model = lively(MODELS.build(cfg))
    return export(model, options, size=(64, 64), calibration=images, watch=lambda images: ()).data


def normal(seed: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(1, 3, height, width)).astype(np.float32)


def compare(data: bytes, folder: Path, *sizes: tuple[int, int]) -> None:
    path = folder / 'model.onnx'
    path.write_bytes(data)
    session = open_timed(path, packed=True, threads=1)
    for seed, size in enumerate(sizes):
        image = normal(seed, *size)
        scores, expected = run(data, image), session.run(['scores'], {'image': image})[0]
        if load_kernels().rebnn_isa() == b'avx2':  # elsewhere ONNX Runtime has another order
            assert scores.tobytes() == expected.tobytes()
        elif platform.machine() in ('x86_64', 'aarch64'):
            # Another rounding may turn a sign, and that moves scores.
            np.testing.assert_allclose(scores, expected, rtol=0, atol=0.2)


def test_the_zoo_classifier_has_the_bits_of_onnx_runtime(tmp_path):
    compare(CLASSIFIER.read_bytes(), tmp_path, (32, 32), (31, 45), (8, 9))


@pytest.mark.parametrize(
    'options',
    [
        Options(half=True),
        Options(fast=True),
        Options(half=True, fast=True, int8='all', reduce_range=True),
        Options(int8='stem', reduce_range=True),
    ],
    ids=['half', 'fast', 'int8', 'int8-stem'],
)
def test_networks_for_large_images_have_the_bits_of_onnx_runtime(options, tmp_path):
    data = network(600, options)
    operators = [node.op_type for node in onnx.load_from_string(data).graph.node]
    assert ('RealStem' in operators, 'Cast' in operators) == (options.fast, options.half and not options.int8)
    assert operators.count('QuantizeLinear') == {'': 0, 'all': 2, 'stem': 4}[options.int8]
    compare(data, tmp_path, (64, 64), (45, 61))


def compare_detections(data: bytes, folder: Path, cases: list[tuple[np.ndarray, tuple[int, int]]]) -> list[int]:
    """How many there are in each image."""
    path = folder / 'model.onnx'
    path.write_bytes(data)
    session = open_timed(path, packed=True, threads=1)
    counts = []
    for image, valid_size in cases:
        found = detect(data, image, valid_size)
        feeds = {'image': image, 'valid_size': np.array(valid_size, np.int64)}
        expected = session.run(['boxes', 'scores', 'labels'], feeds)
        if load_kernels().rebnn_isa() == b'avx2':
            for ours, theirs in zip(found, expected, strict=True):
                assert ours.tobytes() == theirs.tobytes()
        elif platform.machine() in ('x86_64', 'aarch64'):
            # Another rounding may turn a sign, and that moves scores and what is found at all.
            assert abs(len(found[1]) - len(expected[1])) <= 0.2 * len(expected[1]) + 2
        counts.append(len(expected[1]))
    return counts


def noise(seed: int, height: int, width: int) -> np.ndarray:
    """Coarse enough for a detector to see something."""
    generator = np.random.default_rng(seed)
    coarse = generator.normal(size=(1, 3, height // 8, width // 8)).repeat(8, 2).repeat(8, 3)
    return (coarse + generator.normal(scale=0.3, size=(1, 3, height, width))).astype(np.float32)


def lower_the_threshold(graph: onnx.GraphProto) -> None:
    """Of the scores, so that noise gives detections, too."""
    for node in graph.node:
        if node.op_type == 'Greater':
            constant = constant_of(graph, node.input[1])
            constant.raw_data = (np.frombuffer(constant.raw_data, np.float32) / 10).tobytes()


@pytest.mark.parametrize('name', DETECTORS)
def test_the_zoo_detectors_have_the_bits_of_onnx_runtime(name, tmp_path):
    data = changed(lower_the_threshold, zoo_path(name))
    prepared = load(data).prepare(str(zoo_path(f'zoo:{DETECTORS[name]}')))
    cases = [(noise(0, 64, 96), (64, 96)), (noise(1, 160, 128), (150, 101)), (noise(2, 256, 320), (1, 320))]
    cases += [(noise(4, 32, 32), (32, 32)), (noise(5, 256, 320), (240, 320))]
    photo, nothing = (prepared.image, prepared.valid_size), (noise(3, 64, 64), (0, 0))
    photos, *others, none = compare_detections(data, tmp_path, [photo, *cases, nothing])
    assert photos > 5 and max(others) > 5 and none == 0


@pytest.mark.parametrize('config', ['nano', 'tiny'])
@pytest.mark.parametrize('options', [Options(), Options(half=True, fast=True)], ids=['exact', 'fast'])
def test_detectors_of_reals_have_the_bits_of_onnx_runtime(config, options, tmp_path):
    from mmengine.registry import DefaultScope

    from rebnn_mm.export.exporter import export
    from tests.export.detection.detectors import of_config

    def narrow(model) -> None:
        wide = config == 'tiny'
        channels = (8, 16, 32, 32) if wide else (8, 16, 16, 32)
        model.backbone.update(channels=channels, depths=(1, 1, 1, 1), stem_channels=(8 if wide else 4,))
        model.neck.update(in_channels=list(channels[1:]), out_channels=16)
        model.bbox_head.update(in_channels=16, feat_channels=16, stacked_convs=1)
        model.test_cfg.update(score_thr=0.5)

    with DefaultScope.overwrite_default_scope('mmdet'):
        model = of_config(f'one_bit/{config}_bccd', narrow)
    data = export(model, options, size=(64, 64), watch=lambda images: ()).data
    cases = [(noise(3, 64, 96), (60, 90)), (noise(4, 128, 64), (128, 64))]
    assert max(compare_detections(data, tmp_path, cases)) > 5


@pytest.mark.parametrize(
    'options',
    [Options(fast=True), Options(half=True, fast=True, int8='all', reduce_range=True)],
    ids=['fast', 'int8'],
)
def test_two_stage_detectors_have_the_bits_of_onnx_runtime(options, tmp_path):
    from mmengine.registry import DefaultScope

    from rebnn_mm.export.examples import Image
    from rebnn_mm.export.exporter import export
    from tests.export.detection.detectors import narrow_c4, of_config

    def narrow(model) -> None:
        narrow_c4(model)
        model.rpn_head.update(feat_channels=160)  # more than ONNX Runtime adds up at once

    with DefaultScope.overwrite_default_scope('mmdet'):
        model = of_config('coco/faster_rcnn_r18_rebnn_coco', narrow)
    images = [Image(noise(seed, 64, 64), (64, 64)) for seed in range(2)]
    data = export(model, options, size=(64, 64), calibration=images, watch=lambda images: ()).data
    cases = [(noise(0, 64, 96), (64, 96)), (noise(1, 160, 128), (150, 101)), (noise(2, 32, 32), (32, 32))]
    *found, none = compare_detections(data, tmp_path, [*cases, (noise(3, 64, 64), (0, 0))])
    assert min(found) > 5 and none == 0


def test_an_image_whose_sides_do_not_suit_a_detector_is_refused():
    with pytest.raises(Refused, match='sides of the image do not suit'), loaded(NANO.read_bytes(), 72, 96):
        pass


def test_models_are_run_as_what_they_are():
    memory = aligned(1 << 22)
    numbers = [ctypes.c_void_p(memory.ctypes.data)] * 7
    for data, other, sentence in (
        (CLASSIFIER.read_bytes(), 'rebnn_model_detect', b'is a classifier; run it with rebnn_model_run.'),
        (NANO.read_bytes(), 'rebnn_model_run', b'is a detector; run it with rebnn_model_detect.'),
    ):
        with loaded(data, 32, 32) as (library, model):
            given = numbers if other == 'rebnn_model_detect' else numbers[:3]
            assert getattr(library, other)(model, *given, ctypes.c_size_t(1 << 22)) == 1
            assert sentence in library.rebnn_last_error()


def changed(change, path: Path = CLASSIFIER) -> bytes:
    """A file with a change of its content, sealed again."""
    model = onnx.load_from_string(remove_seal(path.read_bytes()))
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


def flatten_channels_first(graph: onnx.GraphProto) -> None:
    output = node_of(graph, 'Conv').output[0]
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, -1]), 'flat'))
    graph.node.append(onnx.helper.make_node('Relu', [output], ['cut']))
    graph.node.append(onnx.helper.make_node('Reshape', ['cut', 'flat'], ['row']))


def add_along_the_width(graph: onnx.GraphProto) -> None:
    numbers = {'square': np.eye(16, 32, dtype=np.float32), 'bias': np.ones(32, np.float32)}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    for operator, inputs, output, perm in (
        ('Transpose', [node_of(graph, 'Conv').output[0]], 'last', [0, 2, 3, 1]),
        ('MatMul', ['last', 'square'], 'product', None),
        ('Transpose', ['product'], 'first', [0, 3, 1, 2]),
        ('Add', ['first', 'bias'], 'sum', None),
    ):
        attributes = {'perm': perm} if perm else {}
        graph.node.append(onnx.helper.make_node(operator, inputs, [output], **attributes))


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (flatten_channels_first, 'the node Reshape .* does not read a map with its channels last'),
        (add_along_the_width, 'the node Add .* does not read a map with its channels last'),
        (rename_operator, 'the node LogSoftmax .* is none that this reader knows'),
        (make_a_cycle, 'the node Conv .* does not read the (image|map)'),
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


def node_of(graph: onnx.GraphProto, operator: str) -> onnx.NodeProto:
    return next(node for node in graph.node if node.op_type == operator)


def constant_of(graph: onnx.GraphProto, name: str) -> onnx.TensorProto:
    (found,) = (node.attribute[0].t for node in graph.node if node.op_type == 'Constant' and node.output[0] == name)
    return found


def choose_all(graph: onnx.GraphProto) -> None:
    name = next(node.input[1] for node in graph.node if node.op_type == 'Min')
    constant_of(graph, name).raw_data = np.array([1 << 40]).tobytes()


def suppress_by_class(graph: onnx.GraphProto) -> None:
    node_of(graph, 'NonMaxSuppression').input.append(graph.initializer[0].name)


def read_beyond(graph: onnx.GraphProto) -> None:
    constant_of(graph, node_of(graph, 'Gather').input[1]).raw_data = np.array([1, 0, 1, 2]).tobytes()


def count_more_classes(graph: onnx.GraphProto) -> None:
    constants = {node.output[0] for node in graph.node if node.op_type == 'Constant'}
    (name,) = (node.input[1] for node in graph.node if node.op_type == 'Mod' and node.input[1] in constants)
    constant_of(graph, name).raw_data = np.int64(1000).tobytes()


def scale_by_nothing(graph: onnx.GraphProto) -> None:
    name = node_of(graph, 'QuantizeLinear').input[1]
    (scale,) = (tensor for tensor in graph.initializer if tensor.name == name)
    scale.CopyFrom(onnx.numpy_helper.from_array(np.float32(0), name))


def reshape_to_nothing(graph: onnx.GraphProto) -> None:
    constant_of(graph, node_of(graph, 'Reshape').input[1]).raw_data = np.array([-1, 0]).tobytes()


def pool_a_part(graph: onnx.GraphProto) -> None:
    (kernel,) = (a for a in node_of(graph, 'AveragePool').attribute if a.name == 'kernel_shape')
    kernel.ints[0] = 2


def stand_still(graph: onnx.GraphProto) -> None:
    constant_of(graph, node_of(graph, 'Range').input[2]).raw_data = np.array(0).tobytes()


def slice_another_axis(graph: onnx.GraphProto) -> None:
    constant_of(graph, node_of(graph, 'Slice').input[3]).raw_data = np.array([2]).tobytes()


def look_at_another_image(graph: onnx.GraphProto) -> None:
    expand = next(n for n in graph.node if n.output[0] == node_of(graph, 'RealRoiAlign').input[2])
    constant_of(graph, expand.input[0]).raw_data = np.array(1).tobytes()


def align_regions_twice(graph: onnx.GraphProto) -> None:
    at = [node.op_type for node in graph.node].index('RealRoiAlign')
    regions = graph.node[at].input[1]
    graph.node[at].input[1] = 'twice'
    graph.node.insert(at, onnx.helper.make_node('Concat', [regions] * 2, ['twice'], axis=0))


def forget_a_size(graph: onnx.GraphProto) -> None:
    del graph.input[1]


def keep_what_is_reduced(graph: onnx.GraphProto) -> None:
    del node_of(graph, 'ReduceMax').attribute[:]


def fill_nothing(graph: onnx.GraphProto) -> None:
    shape = onnx.numpy_helper.from_array(np.array([0, 1 << 62, 8]), 'shape of nothing')
    graph.initializer.append(shape)
    graph.node.append(onnx.helper.make_node('ConstantOfShape', [shape.name], ['nothing']))
    graph.node[-1].attribute.append(
        onnx.helper.make_attribute('value', onnx.numpy_helper.from_array(np.zeros(1, np.float32)))
    )


def forget_the_weights(graph: onnx.GraphProto) -> None:
    weights = {node.input[0] for node in graph.node if node.op_type == 'DequantizeLinear'}
    tensor = next(tensor for tensor in graph.initializer if tensor.name in weights)
    tensor.CopyFrom(onnx.helper.make_tensor(tensor.name, tensor.data_type, [0, *tensor.dims[1:]], b'', raw=True))


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (keep_what_is_reduced, 'the node ReduceMax .* has an attribute that no packed model has'),
        (fill_nothing, 'the node ConstantOfShape .* makes a constant with a size out of range'),
        (forget_the_weights, 'the node DequantizeLinear .* does not read integers'),
        (suppress_by_class, 'the node NonMaxSuppression .* has 5 inputs'),
        (read_beyond, 'a node Gather has an index out of range'),
        (count_more_classes, r'the file gives the label \d+, but has 3 classes'),
        (scale_by_nothing, 'a scale that is not a positive number'),
        (reshape_to_nothing, 'the node Reshape .* asks for a size that no packed model has'),
        (forget_a_size, 'other inputs and outputs than image and valid_size'),
    ],
    ids=lambda value: getattr(value, '__name__', ''),
)
def test_what_the_exporter_does_not_write_for_detectors_is_refused(change, sentence):
    with pytest.raises(Refused, match=sentence):
        detect(changed(change, NANO), noise(0, 64, 64), (64, 64))


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (pool_a_part, 'the node AveragePool .* is not the mean of a whole map'),
        (stand_still, 'the node Range .* counts further than sizes go'),
        (slice_another_axis, 'the node Slice .* has an axis out of range'),
        (align_regions_twice, 'the node RealRoiAlign .* does not read boxes and the image of each'),
        (look_at_another_image, 'region 0 is of image 1, but there are 1'),
    ],
    ids=lambda value: getattr(value, '__name__', ''),
)
def test_what_the_exporter_does_not_write_for_regions_is_refused(change, sentence):
    with pytest.raises(Refused, match=sentence):
        detect(changed(change, TWO_STAGES), noise(0, 64, 96), (64, 96))


def test_a_limit_beyond_all_scores_chooses_all_of_them():
    expected, found = (
        detect(data, noise(0, 32, 32), (32, 32)) for data in (NANO.read_bytes(), changed(choose_all, NANO))
    )
    assert all((ours == theirs).all() for ours, theirs in zip(found, expected, strict=True))


def test_an_image_larger_than_memory_is_refused():
    side = 2**31 - 1
    with pytest.raises(Refused, match='larger than memory can be'), loaded(CLASSIFIER.read_bytes(), side, side):
        pass


def fill_much(graph: onnx.GraphProto) -> None:
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([2**13, 2**13]), 'size'))
    graph.node.append(onnx.helper.make_node('ConstantOfShape', ['size'], ['much']))
    value = onnx.numpy_helper.from_array(np.zeros(1, np.float32))
    graph.node[-1].attribute.append(onnx.helper.make_attribute('value', value))
    graph.node.append(onnx.helper.make_node('Relu', ['much'], ['cut']))


def expand_much(graph: onnx.GraphProto) -> None:
    numbers = {'one': np.zeros(1, np.float32), 'size': np.array([2**13, 2**13])}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    graph.node.append(onnx.helper.make_node('Expand', ['one', 'size'], ['much']))


def expand_often(graph: onnx.GraphProto) -> None:
    numbers = {'one': np.zeros(1, np.float32), 'size': np.array([2**10, 2**10])}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    graph.node.extend(onnx.helper.make_node('Expand', ['one', 'size'], [f'many {i}']) for i in range(64))


def convolve(graph: onnx.GraphProto, taps: int, outputs: list[str]) -> None:
    """A convolution of each channel on its own, in its kernel's words mostly padding."""
    at, x = next((i, n.input[0]) for i, n in enumerate(graph.node) if n.op_type == 'BinaryBlock')
    numbers = {'kernel': np.zeros((16, 1, taps, 1), np.uint8), 'zeros': np.zeros(16, np.float32)}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    options = dict(channels=1, group=16, pads=[0, taps, 0, taps], pad_value=1, layout='NHWC')
    for output in outputs:
        inputs = [x, 'kernel', 'zeros', 'zeros', 'zeros']
        graph.node.insert(at, onnx.helper.make_node('BinaryConv', inputs, [output], domain='rebnn', **options))


def convolve_much(graph: onnx.GraphProto) -> None:
    convolve(graph, 2**15, ['much'])


def convolve_often(graph: onnx.GraphProto) -> None:
    convolve(graph, 2**10, [f'many {i}' for i in range(24)])


def begin_often(graph: onnx.GraphProto) -> None:
    numbers = {'kernel': np.zeros((24, 3, 7, 7), np.float32), 'zeros': np.zeros(24, np.float32)}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    for i in range(900):
        inputs = [graph.input[0].name, 'kernel', 'zeros', 'zeros']
        graph.node.append(onnx.helper.make_node('RealStem', inputs, [f'many {i}'], domain='rebnn', layout='NHWC'))


@pytest.mark.parametrize('change', [fill_much, expand_much, expand_often, convolve_much, convolve_often, begin_often])
def test_constants_that_a_small_file_asks_for_have_a_limit(change):
    sentence = "that gives '(cut|much|many .+)' makes larger constants than a packed model of this size has"
    with pytest.raises(Refused, match=sentence), loaded(changed(change), 32, 32):
        pass


def expand_to_the_end(graph: onnx.GraphProto, left: int) -> None:
    numbers = {'most': np.array([2**30 - 1, 2**29]), 'rest': np.array([2**31 - left])}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    nodes = (
        ('Cast', ['valid_size'], 'sides', {'to': onnx.TensorProto.FLOAT}),
        ('ReduceMax', ['sides'], 'side', {'keepdims': 0}),
        ('Expand', ['side', 'most'], 'sides of most', {}),
        ('Greater', ['side', 'side'], 'truth', {}),
        ('Expand', ['truth', 'rest'], 'truths', {}),
        ('And', ['truths', 'truths'], 'both', {}),
        ('ReduceMax', ['sides of most'], 'largest', {'keepdims': 0}),
    )
    for at, (operator, inputs, output, options) in enumerate(nodes):
        graph.node.insert(at, onnx.helper.make_node(operator, inputs, [output], **options))


def test_memory_that_ends_with_the_last_byte_there_can_be_is_refused():
    """A buffer after it has no place. Other tensors decide where it begins."""
    for left in range(1, 4096, 64):
        data = changed(functools.partial(expand_to_the_end, left=left), NANO)
        with pytest.raises(Refused, match='there is not enough memory'), loaded(data, 32, 32):
            pass


@pytest.mark.parametrize('operator', ['Min', 'Max'])
@pytest.mark.parametrize('is_first', [False, True])
def test_a_limit_that_is_not_a_number_passes_on_as_in_onnx_runtime(operator, is_first, tmp_path):
    limits = np.tile(np.array([np.nan, 0.1], np.float32), 5)[np.newaxis]

    def limit(graph: onnx.GraphProto) -> None:
        graph.node[-1].output[0] = 'free'
        graph.initializer.append(onnx.numpy_helper.from_array(limits, 'limits'))
        names = ['limits', 'free'] if is_first else ['free', 'limits']
        graph.node.append(onnx.helper.make_node(operator, names, ['scores']))

    data, image = changed(limit), normal(0, 32, 32)
    (tmp_path / 'model.onnx').write_bytes(data)
    session = open_timed(tmp_path / 'model.onnx', packed=True, threads=1)
    for scores in (run(data, image), session.run(['scores'], {'image': image})[0]):
        assert (np.isnan(scores) == np.isnan(limits)).all()


def expand_nothing(graph: onnx.GraphProto) -> None:
    numbers = {'one': np.zeros((1, 1, 1, 4), np.float32), 'from': np.array([0]), 'axis': np.array([3])}
    numbers['size'] = np.array([2**31 - 1, 1, 2**27, 0])
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    graph.node.append(onnx.helper.make_node('Slice', ['one', 'from', 'from', 'axis'], ['none']))
    graph.node.append(onnx.helper.make_node('Expand', ['none', 'size'], ['nothing']))


def test_a_tensor_without_numbers_takes_no_time():
    image = normal(0, 8, 8)
    assert (run(changed(expand_nothing), image) == run(CLASSIFIER.read_bytes(), image)).all()


def quantize_the_map_of_regions(graph: onnx.GraphProto) -> None:
    lower_the_threshold(graph)
    at = [node.op_type for node in graph.node].index('RealRoiAlign')
    numbers = {'unit': np.float32(0.05), 'zero': np.uint8(128)}
    graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in numbers.items())
    given, graph.node[at].input[0] = graph.node[at].input[0], 'real'
    graph.node.insert(at, onnx.helper.make_node('DequantizeLinear', ['whole', *numbers], ['real']))
    graph.node.insert(at, onnx.helper.make_node('QuantizeLinear', [given, *numbers], ['whole']))


def test_every_region_of_a_quantised_map_has_the_bits_of_onnx_runtime(tmp_path):
    data = changed(quantize_the_map_of_regions, TWO_STAGES)
    assert compare_detections(data, tmp_path, [(noise(0, 64, 96), (64, 96))]) > [0]


def test_other_tasks_are_refused():
    model = onnx.load_from_string(remove_seal(CLASSIFIER.read_bytes()))
    next(entry for entry in model.metadata_props if entry.key == 'rebnn.task').value = 'text-classification'
    texts = seal(model.SerializeToString())
    with pytest.raises(Refused, match='neither a classifier nor a detector'), loaded(texts, 64, 64):
        pass
