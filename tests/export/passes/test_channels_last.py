from collections import Counter

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from rebnn_mm.deploy.session import library_available, open_session
from rebnn_mm.export import DOMAIN, apply_passes, pack, trace
from rebnn_mm.export.passes import ChannelsLast, FuseBlocks, JoinStem
from rebnn_mm.methods import ReBNNConv2d
from rebnn_mm.models.stages import build_stage
from tests.export.graphs import parsed, run
from tests.export.networks import lively

STYLES = {
    'react': 'ReBNNConv2d',
    'bireal': 'BiRealConv2d',
    'hardtanh': 'ReCUConv2d',
    'relu': 'XNORConv2d',
    'single': 'BNNConv2d',
    'preact': 'FDAConv2d',
}


def kinds(model):
    return Counter(node.op_type for node in model.graph.node)


def layouts(model):
    attributes = [a for node in model.graph.node if node.domain == DOMAIN for a in node.attribute]
    return {a.s for a in attributes if a.name == 'layout'}


class Stages(nn.Module):
    """Two stages of a style, the second of half the size, and the head of a classifier after them."""

    def __init__(self, style):
        super().__init__()
        conv_cfg = dict(type=STYLES[style])
        self.first = build_stage(style, 8, 8, num_blocks=1, stride=1, conv_cfg=conv_cfg)
        self.second = build_stage(style, 8, 12, num_blocks=1, stride=2, conv_cfg=conv_cfg)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        first = self.first(x)
        return self.head(self.pool(self.second(first)).flatten(1)), first


def traced(style):
    net = pack(lively(Stages(style))).model
    return trace(net, {'x': torch.zeros(2, 8, 12, 20)}, ['scores', 'map'], {'x': [0, 2, 3]})


SLOW = ('bireal', 'relu', 'single')
"""What the others have, too."""


@pytest.mark.parametrize('style', [pytest.param(s, marks=pytest.mark.slow) if s in SLOW else s for s in STYLES])
def test_one_layout_from_the_first_to_the_last_operator(style):
    before = apply_passes(traced(style), FuseBlocks())
    after = apply_passes(before, ChannelsLast())
    assert layouts(after) == {b'NHWC'} and layouts(before) == {b'NCHW'}
    assert [value.name for value in after.graph.output] == ['scores', 'map']
    count = kinds(after)
    # One in front, one for the map that is an output.
    assert count['Transpose'] == 2 and count['Conv'] == count['AveragePool'] == count['Reshape'] == 0
    assert count['MatMul'] == kinds(before)['Conv'] and count['RealAveragePool'] == kinds(before)['AveragePool']
    for shape in ((1, 8, 12, 20), (3, 8, 9, 7)):
        x = {'x': torch.randn(shape, generator=torch.Generator().manual_seed(0)).numpy()}
        (scores, first), (new_scores, new_first) = (run(model, x) for model in (before, after))
        assert np.array_equal(first, new_first)
        # The mean over all positions is added up in another order.
        np.testing.assert_allclose(scores, new_scores, rtol=0, atol=1e-6)
        if library_available():
            sessions = [open_session(after.SerializeToString(), library=library) for library in (False, True)]
            for one, other in zip(*(session.run(None, x) for session in sessions), strict=True):
                assert np.array_equal(one, other)


def test_a_stem_of_ours_needs_no_transpose():
    stem = [nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    net = pack(lively(nn.Sequential(*stem, Stages('react')))).model
    graph = apply_passes(
        trace(net, {'image': torch.zeros(2, 3, 64, 48)}, ['y', 'map'], {'image': [0, 2, 3]}), JoinStem()
    )
    after = apply_passes(graph, FuseBlocks(), ChannelsLast())
    assert kinds(after)['Transpose'] == 1 and kinds(after)['RealStem'] == 1 and layouts(after) == {b'NHWC'}
    x = torch.randn(1, 3, 64, 48, generator=torch.Generator().manual_seed(3)).numpy()
    wanted, found = (run(model, {'image': x})[0] for model in (apply_passes(graph, FuseBlocks()), after))
    np.testing.assert_allclose(wanted, found, rtol=0, atol=1e-6)


CONSTANTS = (
    'uint8[8, 1, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] zeros = {0, 0, 0, 0, 0, 0, 0, 0}, '
    'float[8] ones = {1, 1, 1, 1, 1, 1, 1, 1}, float[8, 1, 1] m = {2, -1, 0.5, 1, 3, -2, 1, 0.75}, '
    'float[1, 8, 1, 1] k = {2, -1, 0.5, 1, 3, -2, 1, 0.75}, '
    'float[4, 4] plane = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, '
    'float low = {-1}, float high = {1}, float[4] twice = {1, 1, 2, 2}, int64[2] both = {2, 3}, '
    'float[1, 8, 1, 1] mixed = {2, -1, 0.5, 1, 3, -2, 1, 0.75}, int64[1] last = {-1}'
)


def graph(body, output='y'):
    body = body.replace('CONV', 'rebnn.BinaryConv <channels = 8, layout = "NCHW">')
    head = f'g (float[1, 8, 4, 4] x) => (float[a, b, c, d] {output}) <{CONSTANTS}>'
    return parsed(f'{head} {{{body}}}')


BETWEEN = {
    'factors per channel and per position': 'b = Mul (m, a) c = Add (b, plane) d = Div (c, high)',
    'a slope per channel': 'd = PRelu (a, k)',
    'a clip': 'd = Clip (a, low, high)',
    'a residual': 'd = Add (a, a)',
    'concatenated channels': 'b = CONV (x, w, zeros, ones, zeros) c = Concat <axis = 1> (a, b) '
    'd, rest = Split <axis = 1, num_outputs = 2> (c)',
    'rows one below the other': 'd = Concat <axis = -2> (a, a)',
    'larger': 'd = Resize <mode = "nearest"> (a, , twice)',
    'larger and larger': 'b = Resize <mode = "nearest"> (a, , twice) e = CONV (b, w, zeros, ones, zeros) '
    'd = Resize <mode = "nearest"> (e, , twice)',
    'halved': 'd = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (a)',
    'half of one row': 'd = AveragePool <kernel_shape = [2, 1], strides = [2, 2]> (a)',
    'padded': 'd = AveragePool <kernel_shape = [2, 2], strides = [2, 2], pads = [1, 1, 1, 1]> (a)',
    'a mean of each row': 'e = ReduceMean (a, last) d = Add (e, a)',
    'a mean of all': 'e = ReduceMean (a, both) d = Add (e, a)',
    'a global pooling': 'e = GlobalAveragePool (a) d = Add (a, e)',
    'its shape': 's = Shape (a) e = ConstantOfShape (s) d = Add (e, a)',
    'part of its shape': 's = Shape <start = 2> (a) e = ConstantOfShape (s) d = Add (a, e)',
}


@pytest.mark.parametrize('name', BETWEEN)
def test_what_stands_between_two_convolutions(name):
    first = 'f = CONV (x, w, zeros, ones, zeros) a = CONV (f, w, zeros, ones, zeros)'
    before = graph(f'{first} {BETWEEN[name]} l = CONV (d, w, zeros, ones, zeros) y = CONV (l, w, zeros, ones, zeros)')
    after = apply_passes(before, ChannelsLast())
    onnx.checker.check_model(after, full_check=True)
    assert layouts(after) == {b'NHWC'}
    x = np.random.default_rng(0).normal(size=(1, 8, 4, 4)).astype(np.float32)
    np.testing.assert_allclose(run(before, {'x': x})[0], run(after, {'x': x})[0], rtol=0, atol=1e-5)


def test_what_would_cost_more_than_it_gains_stays():
    # 8 channels enter, 16 leave, and the convolution gives 8.
    body = 'a = CONV (x, w, zeros, ones, zeros) b = Relu (a) c = MaxPool <kernel_shape = [2, 2]> (b) '
    both = graph(body + 'y = Concat <axis = 1> (c, c)')
    assert apply_passes(both, ChannelsLast()) is both


def test_a_graph_without_binary_convolutions_stays():
    model = parsed('g (float[1, 8, 4, 4] x) => (float[1, 8, 4, 4] y) { y = Relu (x) }')
    assert apply_passes(model, ChannelsLast()) is model


ALIGNED = (
    'RoiAlign <output_height = 4, output_width = 4, sampling_ratio = 2, spatial_scale = 0.5, '
    'coordinate_transformation_mode = "output_half_pixel"> (a, rois, images)'
)


def regions(behind):
    """A convolution and the alignment of three regions, before something."""
    body = f'a = CONV (x, w, zeros, ones, zeros) d = {ALIGNED} {behind}'
    constants = 'float[3, 4] rois = {0, 0, 8, 8, 1, 2, 5, 7, -3, 0, 4, 9}, int64[3] images = {0, 0, 0}'
    body = body.replace('CONV', 'rebnn.BinaryConv <channels = 8, layout = "NCHW">')
    return parsed(f'g (float[1, 8, 4, 4] x) => (float[a, b, c, d] y) <{CONSTANTS}, {constants}> {{{body}}}')


def test_the_alignment_of_regions_is_taken_in_where_it_is_allowed():
    pooled = 'p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (d) y = CONV (p, w, zeros, ones, zeros)'
    before = regions(pooled)
    exact, after = apply_passes(before, ChannelsLast()), apply_passes(before, ChannelsLast(regions=True))
    assert kinds(exact)['RoiAlign'] == 1 and kinds(exact)['RealRoiAlign'] == 0
    count = kinds(after)
    assert (count['RealRoiAlign'], count['RealAveragePool'], count['RoiAlign'], count['Transpose']) == (1, 1, 0, 2)
    x = {'x': np.random.default_rng(0).normal(size=(1, 8, 4, 4)).astype(np.float32)}
    wanted, found = run(before, x)[0], run(after, x)[0]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    if library_available():
        (ours,) = open_session(after.SerializeToString(), library=True).run(None, x)
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-5)


def test_the_largest_of_a_bin_stays_with_the_standard_operator():
    model = regions('y = CONV (d, w, zeros, ones, zeros)')
    (node,) = (node for node in model.graph.node if node.op_type == 'RoiAlign')
    node.attribute.append(onnx.helper.make_attribute('mode', 'max'))
    assert kinds(apply_passes(model, ChannelsLast(regions=True)))['RoiAlign'] == 1


class Upsampled(nn.Module):
    """A map of half the size, upsampled and added to the one it was made of, as in a neck."""

    def __init__(self, **options):
        super().__init__()
        self.down, self.up, self.fine = (ReBNNConv2d(8, 8, 3, stride, 1, bias=False) for stride in (2, 1, 1))
        self.options = options

    def forward(self, x):
        fine = self.fine(x)
        return self.up(fine + nn.functional.interpolate(self.down(fine), **self.options))


@pytest.mark.parametrize(
    ('options', 'joined'),
    [({'scale_factor': 2.0}, True), ({'scale_factor': 2.0, 'mode': 'bilinear'}, False), ({'size': (12, 20)}, False)],
)
def test_an_upsampling_and_its_addition_are_one_operator(options, joined):
    net = lively(Upsampled(**options))
    before = trace(pack(net).model, {'x': torch.zeros(2, 8, 12, 20)}, ['y'], {'x': [0]})
    before = apply_passes(before, FuseBlocks())
    after = apply_passes(before, ChannelsLast())
    assert kinds(after)['RealUpsampleAdd'] == joined and kinds(after)['Resize'] == 1 - joined
    x = {'x': np.random.default_rng(0).normal(size=(2, 8, 12, 20)).astype(np.float32)}
    (expected,) = run(before, x)
    answers = [run(after, x)[0]]
    if library_available():
        answers.append(open_session(after.SerializeToString(), library=True).run(None, x)[0])
    for y in answers:
        np.testing.assert_array_equal(y, expected)
