import hashlib
from copy import deepcopy

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from rebnn_mm.deploy import load
from rebnn_mm.export import DOMAIN, apply_passes
from rebnn_mm.export.exporter import build_unfused_graph, export, export_file, noise, prepare_example, write
from rebnn_mm.export.options import Options
from rebnn_mm.export.passes import ToHalf
from rebnn_mm.export.tasks import ClassifierScores, Task
from rebnn_mm.export.verify import verify
from rebnn_mm.methods import DoReFaConv2d, ReBNNConv2d
from tests.export.conftest import PREPROCESS
from tests.export.graphs import run
from tests.export.networks import lively
from tests.tolerances import FLOAT32_ROUNDING


@pytest.fixture(scope='module')
def model(exported):
    return onnx.ModelProto.FromString(exported.data)


def test_scores_are_those_of_pytorch(classifier, exported):
    found = exported.verification
    assert exported.task.name == 'classification' and found.images == found.top1 == 2
    assert found.difference < FLOAT32_ROUNDING
    layers = [f'backbone.layer1.{block}.conv{i}' for block in (0, 1) for i in (1, 2)]
    # 8 channels of 16 x 12 on 2 images
    assert {name: flips.compared for name, flips in found.flips.items()} == dict.fromkeys(layers, 2 * 8 * 16 * 12)
    assert found.flipped.flipped == 0


def test_any_number_of_images_of_any_size(classifier, exported, model):
    for shape in ((3, 3, 16, 12), (1, 3, 20, 33)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            expected = ClassifierScores(classifier)(x).numpy()
        np.testing.assert_allclose(run(model, {'image': x.numpy()})[0], expected, atol=FLOAT32_ROUNDING, rtol=0)
    assert exported.fixed == []


def test_the_deploy_package_runs_the_file(exported, classifier, tmp_path):
    write(exported.data, tmp_path / 'tiny.onnx')
    image = np.random.default_rng(3).integers(0, 256, (16, 12, 3), np.uint8)
    labels = load(tmp_path / 'tiny.onnx', use_library=False, size=(12, 16))(image)
    x = (image.transpose(2, 0, 1) - np.array(PREPROCESS['mean'])[:, None, None]) / np.array(PREPROCESS['std'])[
        :, None, None
    ]
    with torch.no_grad():
        expected = ClassifierScores(classifier)(torch.from_numpy(x[None].astype(np.float32)))[0]
    assert labels[0].name == 'abcde'[int(expected.argmax())]
    assert abs(labels[0].score - float(expected.max())) < FLOAT32_ROUNDING


def test_export_file_writes_what_export_gives_and_leaves_the_model_training(classifier, tmp_path):
    model = deepcopy(classifier).train()
    before = deepcopy(model.state_dict())
    options = dict(preprocess=PREPROCESS, size=(16, 12), classes=list('abcde'))
    result = export_file(model, tmp_path / 'new' / 'tiny.onnx', **options)
    data = (tmp_path / 'new' / 'tiny.onnx').read_bytes()
    assert data == result.data == export(classifier, **options).data
    assert result.verification.difference < FLOAT32_ROUNDING
    assert all(module.training for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_export_file_leaves_the_file_that_was_there_when_the_model_is_refused(classifier, tmp_path):
    (tmp_path / 'tiny.onnx').write_bytes(b'before')
    with pytest.raises(ValueError, match='^the model tells 5 classes apart, and 2 names of classes are given'):
        export_file(classifier, tmp_path / 'tiny.onnx', classes=['cat', 'dog'], size=(32, 32))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b'before']


def test_what_is_in_the_file(exported, model):
    assert model.ir_version == 9
    kinds = [node.op_type for node in model.graph.node if node.domain == DOMAIN]
    assert kinds == ['BinaryBlock', *['PackedBinaryBlock'] * 3]
    entries = {entry.key: entry.value for entry in model.metadata_props}
    assert entries['rebnn.config'] == 'tiny.py' and entries['rebnn.task'] == 'classification'
    last = exported.data.rindex(b'rebnn.file_sha256')
    start = exported.data.rindex(b'\x72', 0, last)
    assert entries['rebnn.file_sha256'] == hashlib.sha256(exported.data[:start]).hexdigest()


def test_the_report_adds_up(exported):
    report = exported.report
    layers = {layer.name: layer for layer in report.layers}
    conv = layers['backbone.layer1.0.conv1']
    assert (conv.bits, conv.size, conv.binary, conv.real, conv.why) == ('1/1', 8 * 9, 8 * 8 * 9 * 16 * 12, 0, '')
    stem = layers['backbone.conv1']
    assert (stem.size, stem.real, stem.binary) == (4 * 8 * 27, 8 * 27 * 16 * 12, 0)
    assert stem.why == 'first layer (3 input channels)'
    assert report.packed_size == 4 * 72 and report.size == len(exported.data)
    assert report.packed_size + report.real_size < report.size


def test_half_precision_is_compared_with_single(exported, model):
    # Nothing in this network is large enough to be halved.
    assert exported.half == (0.0, 2, 2, [], 0.0, 0)
    assert apply_passes(model, ToHalf()) is model


def test_without_fusion_there_is_one_operator_per_layer(classifier, exported):
    plain = export(classifier, Options(fuse=False), preprocess=PREPROCESS, size=(16, 12))
    kinds = {node.op_type for node in onnx.ModelProto.FromString(plain.data).graph.node if node.domain == DOMAIN}
    assert kinds == {'BinaryConv'}
    x = torch.randn(2, 3, 16, 12).numpy()
    results = [run(onnx.ModelProto.FromString(data), {'image': x})[0] for data in (plain.data, exported.data)]
    assert np.array_equal(*results)


def test_what_cannot_be_exported_is_said_before_anything_is_traced():
    steps = []
    with pytest.raises(ValueError, match="DoReFaConv2d '0' has weights of 4 bits"):
        export(nn.Sequential(DoReFaConv2d(8, 8, 3)), progress=steps.append)
    assert steps == ['packing and tracing']
    with pytest.raises(ValueError, match=r"^int8='head' is none of heads, all, stem"):
        export(nn.Conv2d(3, 8, 3), Options(int8='head'))


def test_a_training_that_diverged_is_named(classifier):
    broken = deepcopy(classifier)
    broken.head.fc.weight.data[0, 0] = float('nan')
    with pytest.raises(ValueError, match=r'^head.fc.weight contains NaN or Inf: the training diverged'):
        export(broken, size=(32, 32))


def test_statistics_that_have_seen_an_overflow_are_named():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    net[1].running_var[0] = float('inf')
    with pytest.raises(ValueError, match=r'^1.running_var contains NaN or Inf: the training diverged'):
        export(net, size=(32, 32))


class Truths(nn.Module):
    """Which channels of a map are positive on the whole, and the best of them."""

    def __init__(self):
        super().__init__()
        self.net = lively(nn.Sequential(nn.Conv2d(3, 8, 3), ReBNNConv2d(8, 16, 3, padding=1)))

    def forward(self, x):
        means = self.net(x).mean((2, 3))
        return means > 0, means.argmax(1)


def test_truth_values_and_whole_numbers_are_compared_by_equality():
    result = export(Truths(), Options(half=True), size=(32, 32))
    assert result.verification.complete == result.half.images == 2
    assert result.verification.difference == result.half.difference == 0
    outputs = run(onnx.ModelProto.FromString(result.data), {'image': np.ones((1, 3, 32, 32), np.float32)})
    assert [output.dtype for output in outputs] == [bool, np.int64]


def test_a_truth_value_that_is_wrong_is_refused():
    graph, _ = build_unfused_graph(Truths(), Task('raw'), (32, 32))
    (greater,) = (node for node in graph.graph.node if node.op_type == 'Greater')
    greater.op_type = 'LessOrEqual'
    with pytest.raises(ValueError, match='outputs that differ from those of PyTorch by 1 of the largest, although'):
        verify(graph, Truths().eval(), Task('raw'), noise({'channels': 'rgb'}, (32, 32)))


WRAPPERS = {
    'DataParallel': nn.DataParallel,
    'torch.compile': torch.compile,
    'compile()': lambda net: (net.compile(), net)[1],
    'averaged weights': AveragedModel,
    'parts': lambda net: nn.Sequential(torch.compile(nn.DataParallel(net[0])), *net[1:]),
}


@pytest.mark.parametrize('wrap', WRAPPERS.values(), ids=WRAPPERS)
def test_what_wraps_a_model_is_taken_off(wrap):
    net = lively(nn.Sequential(nn.Conv2d(3, 8, 3), ReBNNConv2d(8, 16, 3, padding=1)))
    plain, wrapped = (export(model, size=(32, 32)) for model in (net, wrap(deepcopy(net))))
    assert wrapped.data == plain.data and wrapped.report == plain.report


@pytest.mark.parametrize('part', [False, True])
def test_a_model_whose_layers_are_gone_is_refused(part):
    traced = torch.jit.trace(nn.Conv2d(3, 8, 3), torch.zeros(1, 3, 8, 8))
    words = "the part '0'" if part else 'the model'
    with pytest.raises(ValueError, match=f'^{words} is TorchScript, which holds no layers to pack'):
        export(nn.Sequential(traced, nn.ReLU()) if part else traced, size=(32, 32))


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        (dict(classes=range(8)), 'rebnn.classes must be a JSON list of texts'),
        (dict(preprocess=dict(channels='RGB')), "channels in rebnn.preprocess must be 'rgb' or 'bgr', not 'RGB'"),
    ],
    ids=['classes', 'preprocess'],
)
def test_what_no_reader_takes_is_not_written(given, words, tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardtanh(), ReBNNConv2d(8, 8, 3))
    with pytest.raises(ValueError, match=words):
        export_file(net, tmp_path / 'net.onnx', size=(8, 8), examples=noise({'channels': 'rgb'}, (8, 8)), **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ('given', 'words'),
    [
        (dict(trained={}), 'a dict is no model: load its weights into one'),
        (dict(size=8), 'size must be the height and width of an image, not 8'),
        (dict(size=(3, 8, 8)), r'size must be the height and width of an image, not \(3, 8, 8\)'),
        (dict(examples=[np.zeros((8, 8, 3), np.uint8)]), 'an example is a ndarray; make one of an image'),
        (dict(examples=noise({'channels': 'rgb'}, (2, 8))), r'does not take the example image \[1, 3, 2, 8\]'),
    ],
    ids=['weights', 'number', 'channels', 'pixels', 'small'],
)
def test_arguments_of_another_kind_are_said(given, words):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardtanh(), ReBNNConv2d(8, 8, 3, padding=1))
    with pytest.raises(ValueError, match=words):
        export(**dict(trained=net, size=(8, 8)) | given)


def test_autocast_around_an_export_changes_nothing():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), ReBNNConv2d(8, 8, 3))
    data = export(net, size=(8, 8)).data
    with torch.autocast('cpu', torch.bfloat16):
        assert export(net, size=(8, 8)).data == data


def test_a_model_that_keeps_a_map_of_its_last_step_is_exported():
    class Keeps(nn.Sequential):
        def forward(self, x):
            self.seen = self[0](x)
            return self[1](self.seen)

    net = Keeps(nn.Conv2d(3, 8, 3), ReBNNConv2d(8, 8, 3))
    net(torch.rand(1, 3, 8, 8))
    assert export(net, size=(8, 8)).verification.images == 2 and net.seen.requires_grad


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / 'model.onnx'
    write(b'old', path)
    write(b'new', path)
    assert path.read_bytes() == b'new' and [entry.name for entry in tmp_path.iterdir()] == ['model.onnx']
    folder = tmp_path / 'folder'
    folder.mkdir()
    with pytest.raises(OSError):  # noqa: PT011
        write(b'x', folder)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ['folder', 'model.onnx']


def test_noise_is_the_same_every_time_and_prepared():
    first, second = noise(PREPROCESS, (8, 6)), noise(PREPROCESS, (8, 6))
    assert all(np.array_equal(a.values, b.values) for a, b in zip(first, second, strict=True))
    values = first[0].values[0, 0] * 60 + 120
    np.testing.assert_allclose(values, values.round(), atol=1e-4)
    assert values.min() >= -1e-4 and values.max() <= 255.0001


def test_an_image_of_a_detector_is_padded():
    image = prepare_example({'channels': 'bgr', 'pad': {'divisor': 32, 'value': 0}}, np.full((20, 40, 3), 7, np.uint8))
    assert image.values.shape == (1, 3, 32, 64) and image.valid_size == (20, 40)


def test_any_other_model_gives_what_its_head_gives():
    model = lively(nn.Sequential(nn.Conv2d(3, 8, 3), ReBNNConv2d(8, 4, 3, padding=1)))
    result = export(model, size=(12, 10))
    assert result.task.name == 'raw' and 'not a detector of mmdet' in result.task.because
    raw = onnx.ModelProto.FromString(result.data)
    entries = {entry.key: entry.value for entry in raw.metadata_props}
    assert entries['rebnn.task'] == 'raw' and entries['rebnn.outputs'] == '["output"]'
    x = torch.randn(1, 3, 20, 9, generator=torch.Generator().manual_seed(0))
    expected = model(x).detach().numpy()
    np.testing.assert_allclose(run(raw, {'image': x.numpy()})[0], expected, atol=1e-5, rtol=0)
