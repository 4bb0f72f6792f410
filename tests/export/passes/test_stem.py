"""The stem of a residual network as one operator: what is joined, what is not, and the numbers."""

from collections import Counter

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from rebnn_mm.deploy.session import half_products, library_available, open_session
from rebnn_mm.export import DOMAIN, apply_passes, trace
from rebnn_mm.export.exporter import export
from rebnn_mm.export.options import Options
from rebnn_mm.export.passes import Compact, JoinStem, ToHalf
from rebnn_mm.export.passes.half import SMALL
from tests.export.conftest import PREPROCESS, tiny_classifier, tiny_parts
from tests.export.graphs import run
from tests.export.networks import lively
from tests.tolerances import FLOAT32_ROUNDING


def stem(conv=None, norm=True, between=None, pool=None):
    layers = [
        conv or nn.Conv2d(3, 8, 7, 2, 3, bias=False),
        *([nn.BatchNorm2d(8)] if norm else []),
        *([between] if between else []),
        pool or nn.MaxPool2d(3, 2, 1),
    ]
    return lively(nn.Sequential(*layers))


def traced(net, channels=3):
    return trace(net, {'image': torch.zeros(2, channels, 32, 36)}, ['y'], {'image': [0, 2, 3]})


def kinds(model):
    return [node.op_type for node in model.graph.node if not node.op_type.startswith('Constant')]


JOINED = {
    'as in a ResNet': (stem(), ['RealStem']),
    'with a relu': (stem(between=nn.ReLU()), ['RealStem', 'Relu']),
    'with a bias and without a norm': (stem(nn.Conv2d(3, 8, 7, 2, 3), norm=False), ['RealStem']),
    'with a bias and a norm': (stem(nn.Conv2d(3, 8, 7, 2, 3)), ['RealStem']),
    'one input channel': (stem(nn.Conv2d(1, 8, 7, 2, 3)), ['RealStem']),
}


@pytest.mark.parametrize('name', JOINED)
def test_a_stem_becomes_one_operator_that_computes_the_same(name):
    net, expected = JOINED[name]
    channels = net[0].in_channels
    model = traced(net, channels)
    joined = apply_passes(model, JoinStem())
    assert kinds(joined) == expected and [function.name for function in joined.functions] == ['RealStem']
    x = torch.randn(3, channels, 37, 21, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = net(x).numpy()
    (found,) = run(joined, {'image': x.numpy()})
    np.testing.assert_allclose(found, y, rtol=0, atol=FLOAT32_ROUNDING * np.abs(y).max())
    assert 'RealStem' not in kinds(model)


OTHERS = {
    'another kernel': stem(nn.Conv2d(3, 8, 5, 2, 3, bias=False)),
    'another stride': stem(nn.Conv2d(3, 8, 7, 1, 3, bias=False)),
    'another border': stem(nn.Conv2d(3, 8, 7, 2, 2, bias=False)),
    'a dilation': stem(nn.Conv2d(3, 8, 7, 2, 3, dilation=2, bias=False)),
    'groups': stem(nn.Conv2d(4, 8, 7, 2, 3, groups=2, bias=False)),
    'many input channels': stem(nn.Conv2d(5, 8, 7, 2, 3, bias=False)),
    'another pooling': stem(pool=nn.MaxPool2d(2, 2)),
    'a pooling that rounds up': stem(pool=nn.MaxPool2d(3, 2, 1, ceil_mode=True)),
    'an average': stem(pool=nn.AvgPool2d(3, 2, 1)),
    'another function': stem(between=nn.PReLU()),
}


class Others(nn.Module):
    """All of them in one graph, each on the image with as many channels as it takes."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList(OTHERS.values())

    def forward(self, three, four, five):
        by_channels = {3: three, 4: four, 5: five}
        return [net(by_channels[net[0].in_channels]) for net in self.nets]


def test_what_is_no_such_stem_stays():
    images = {f'image{channels}': torch.zeros(2, channels, 32, 36) for channels in (3, 4, 5)}
    model = trace(Others(), images, [f'y{i}' for i in range(len(OTHERS))])
    assert kinds(model).count('Conv') == len(OTHERS)
    assert apply_passes(model, JoinStem()) is model


class TwoReaders(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = stem()

    def forward(self, x):
        conv = self.layers[1](self.layers[0](x))
        return self.layers[2](conv), conv


def test_a_convolution_that_something_else_reads_stays():
    model = trace(TwoReaders().eval(), {'image': torch.zeros(1, 3, 32, 32)}, ['y', 'z'])
    assert apply_passes(model, JoinStem()) is model


def test_constants_of_a_stem_stay_as_they_are():
    # The norm of a fresh network does nothing, and 128 filters of 7x7 are many values.
    net = nn.Sequential(nn.Conv2d(3, 128, 7, 2, 3, bias=False), nn.MaxPool2d(3, 2, 1)).eval()
    assert net[0].weight.numel() > SMALL
    model = apply_passes(traced(net), JoinStem(), Compact(), ToHalf())
    assert [node.op_type for node in model.graph.node] == ['RealStem']
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {array.dtype for array in stored.values()} == {np.dtype(np.float32)} and len(stored) == 3
    x = torch.randn(1, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(run(model, {'image': x.numpy()})[0], net(x).detach().numpy(), atol=FLOAT32_ROUNDING)


@pytest.fixture(scope='module')
def fast():
    """A small ResNet whose stem is that of ImageNet's, and its export with faster kernels."""
    pytest.importorskip('mmpretrain')
    parts = tiny_parts()
    parts['backbone'] |= dict(stem='imagenet', base_channels=16)
    parts['head'] |= dict(in_channels=16)
    model = tiny_classifier(**parts)
    return model, export(model, Options(fast=True), preprocess=PREPROCESS, size=(64, 48))


def test_export_joins_the_stem_and_compares_with_the_exact_file(fast):
    _, result = fast
    names = Counter(node.op_type for node in onnx.ModelProto.FromString(result.data).graph.node)
    assert names['RealStem'] == 1 and names['Conv'] == names['MaxPool'] == 0
    (node,) = (n for n in onnx.ModelProto.FromString(result.data).graph.node if n.op_type == 'RealStem')
    assert node.name == 'backbone.conv1' and node.domain == DOMAIN
    assert result.fast is not None and (result.fast.images, result.fast.top1) == (2, 2)
    assert result.verification.difference < FLOAT32_ROUNDING and result.fast.difference < FLOAT32_ROUNDING
    (layer,) = (layer for layer in result.report.layers if layer.name == 'backbone.conv1')
    assert (layer.size, layer.real, layer.binary) == (4 * 16 * 147, 16 * 147 * 32 * 24, 0)


def test_a_model_without_such_a_stem_keeps_its_operators_and_allows_the_blocked_layout(classifier):
    plain, fast = (export(classifier, Options(fast=value), size=(16, 12)) for value in (False, True))
    models = [onnx.ModelProto.FromString(result.data) for result in (plain, fast)]
    entries = [{entry.key: entry.value for entry in model.metadata_props} for model in models]
    nodes = [[(node.op_type, node.name) for node in model.graph.node if node.domain] for model in models]
    assert nodes[0] == nodes[1] and nodes[0]
    assert entries[1].keys() - entries[0].keys() == {'rebnn.real_layout'}
    assert entries[1]['rebnn.real_layout'] == 'blocked'
    assert fast.fast is not None and fast.fast.difference < FLOAT32_ROUNDING


def test_a_stem_in_half_precision(fast):
    result = export(fast[0], Options(fast=True, half_stem=True), preprocess=PREPROCESS, size=(64, 48))
    (node,) = (n for n in onnx.ModelProto.FromString(result.data).graph.node if n.op_type == 'RealStem')
    assert {a.name: a.s for a in node.attribute}['precision'] == b'half'
    assert result.half_stem is not None and result.half_stem.images == 2
    # The comparison with PyTorch is that of the file with float32, where signs must be the same.
    assert result.verification == fast[1].verification and result.fast == fast[1].fast
    if half_products() in ('float16', 'bfloat16'):
        assert 0 < result.half_stem.difference < 1
    else:
        assert result.half_stem.difference == result.fast.difference


def test_half_a_stem_needs_a_stem(fast, classifier):
    with pytest.raises(ValueError, match='half_stem is an option of the stem that fast makes'):
        export(fast[0], Options(half_stem=True))
    assert export(classifier, Options(fast=True, half_stem=True), size=(16, 12)).half_stem is None


def test_the_exact_file_has_no_stem(fast):
    exact = onnx.ModelProto.FromString(export(fast[0], size=(64, 48)).data)
    assert 'RealStem' not in kinds(exact)


def test_the_kernel_agrees_with_the_function(fast):
    if not library_available():
        pytest.skip('the library is not built')
    x = np.random.default_rng(2).normal(size=(4, 3, 65, 47)).astype(np.float32)
    one, other = (open_session(fast[1].data, library=library).run(None, {'image': x})[0] for library in (True, False))
    # A rounding may turn a sign before a binary layer, which is more than a rounding.
    np.testing.assert_allclose(one, other, rtol=0, atol=0.02)
    assert (one.argmax(-1) == other.argmax(-1)).all()


def test_a_wrong_kernel_is_refused(monkeypatch, classifier):
    if not library_available():
        pytest.skip('the library is not built')
    parts = tiny_parts()
    parts['backbone'] |= dict(stem='imagenet')
    right = JoinStem.rewrite

    def wrong(self, graph):
        joined = right(self, graph)
        for name, value in graph.initializers.items():
            if name.endswith('conv1.add'):
                value.const_value = ir.tensor(value.const_value.numpy() + 1, name=name)
        return joined

    monkeypatch.setattr(JoinStem, 'rewrite', wrong)
    with pytest.raises(ValueError, match=r'differs from PyTorch first at backbone\.layer1\.0\.conv1'):
        export(tiny_classifier(**parts), Options(fast=True), size=(64, 48))
