from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from rebnn_mm.export import apply_passes, pack, trace
from rebnn_mm.export.passes import FuseBlocks
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BinaryVGGSmall
from rebnn_mm.models.stages import build_stage
from tests.export.graphs import parsed, run
from tests.export.networks import lively

STYLES = {
    'react': ('ReBNNConv2d', {'BinaryBlock': 1, 'PackedBinaryBlock': 3}),
    'bireal': ('BiRealConv2d', {'BinaryBlock': 1, 'PackedBinaryBlock': 3}),
    'hardtanh': ('ReCUConv2d', {'BinaryClipBlock': 1, 'PackedBinaryClipBlock': 3}),
    'relu': ('XNORConv2d', {'BinaryBlock': 1, 'PackedBinaryBlock': 3}),
    'single': ('BNNConv2d', {'BinaryClipBlock': 1, 'PackedBinaryClipBlock': 3}),
    # The ReLU is joined; norm and shortcut, which come after it, are not.
    'reste': ('ReSTEConv2d', {'BinaryBlock': 4}),
    # The norm after an addition belongs to the sign that follows, so what the block adds up is read as it is.
    'preact': ('FDAConv2d', {'BinaryBlock': 2, 'PackedBinaryBlock': 2}),
    # A gate, which is not a constant, follows each convolution.
    'real_to_binary': ('BNNConv2d', {'BinaryConv': 4}),
}


class Stages(nn.Module):
    """A stage of each block style, on the same input."""

    def __init__(self):
        super().__init__()
        shape = dict(in_channels=8, out_channels=12, num_blocks=2, stride=2)
        self.stages = nn.ModuleDict(
            {style: build_stage(style, conv_cfg=dict(type=conv), **shape) for style, (conv, _) in STYLES.items()}
        )
        conv_cfg = dict(type='BiDetConv2d')
        self.vgg = BinaryVGGSmall(base_channels=8, conv_cfg=conv_cfg)

    def forward(self, x):
        return [*(stage(x) for stage in self.stages.values()), self.vgg(x[:, :3])[0]]


@pytest.fixture(scope='module')
def stages():
    """Trained, traced, and traced and fused."""
    trained = lively(Stages())
    names = [*STYLES, 'vgg']
    graph = trace(pack(trained).model, {'x': torch.zeros(2, 8, 24, 16)}, names, {'x': [0]})
    return trained, graph, apply_passes(graph, FuseBlocks())


def of_stage(model, style):
    return Counter(node.op_type for node in model.graph.node if node.name.startswith(f'stages.{style}.'))


@pytest.mark.parametrize('count', [1, 3])
def test_fusion_changes_no_bit_of_the_result(stages, count):
    x = torch.randn(count, 8, 24, 16, generator=torch.Generator().manual_seed(0))
    before, after = (run(model, {'x': x.numpy()}) for model in stages[1:])
    with torch.no_grad():
        expected = stages[0](x)
    for style, one, other, real in zip([*STYLES, 'vgg'], before, after, expected, strict=True):
        assert np.array_equal(one, other), style
        # PyTorch rounds a batch norm once, the graph twice.
        np.testing.assert_allclose(other, real.numpy(), rtol=0, atol=2e-6 * float(real.abs().max()), err_msg=style)


@pytest.mark.parametrize('style', STYLES)
def test_every_block_style_becomes_blocks(stages, style):
    assert {kind: count for kind, count in of_stage(stages[2], style).items() if 'Binary' in kind} == STYLES[style][1]


def test_a_network_without_shortcuts_adds_zero_in_place_of_a_residual(stages):
    blocks = [node for node in stages[2].graph.node if node.name.startswith('vgg.') and 'Block' in node.op_type]
    # After every second convolution a pooling stands before the norm.
    assert len(blocks) == 2
    residuals = {node.input[5 if node.op_type.startswith('Packed') else 6] for node in blocks}
    assert residuals == {'no_residual'}
    (zero,) = (tensor for tensor in stages[2].graph.initializer if tensor.name == 'no_residual')
    assert list(zero.dims) == [1, 1, 1, 1]


HEAD = 'g (float[1, 8, 4, 4] x, float[1, 8, 4, 4] r, float[1, 1, 4, 4] row) => ({outputs}) <{constants}>'
CONSTANTS = (
    'uint8[8, 1, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] zeros = {0, 0, 0, 0, 0, 0, 0, 0}, '
    'float[8] ones = {1, 1, 1, 1, 1, 1, 1, 1}, float[8] some = {0.5, -1, 2, 0.25, -3, 1, 0.125, -0.5}, '
    'float[1, 8, 1, 1] m = {2, -1, 0.5, 1, 3, -2, 1, 0.75}, float[8, 1, 1] a = {1, 2, -3, 4, -5, 6, -7, 8}, '
    'float half = {0.5}, float low = {-1}, float high = {1}, float above = {0.5}, '
    'float lower = {-2}, float higher = {2}, ' + ', '.join(f'float[1, 8, 4, 4] {value}' for value in 'cde')
)
CONV = (
    'rebnn.BinaryConv <channels = 8, strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0], group = 1, '
    'pad_value = 0, layout = "NCHW">'
)


def graph(body, outputs='float[1, 8, 4, 4] y'):
    body = body.replace('CONV', CONV)
    return parsed(f'{HEAD.format(outputs=outputs, constants=CONSTANTS)} {{{body}}}')


FUSABLE = {
    'norm': 'c = CONV (x, w, zeros, some, zeros) m1 = Mul (m, c) y = Add (m1, a)',
    'bias alone': 'c = CONV (x, w, some, some, some) y = Relu (c)',
    'bias, residual, leaky': 'c = CONV (x, w, some, some, some) s = Add (r, c) y = LeakyRelu <alpha = 0.1> (s)',
    'a factor alone': 'c = CONV (x, w, zeros, ones, zeros) y = Mul (c, half)',
    'clipped': 'c = CONV (x, w, zeros, some, zeros) s = Add (c, r) y = Clip (s, low, high)',
    'no norm': 'c = CONV (x, w, zeros, ones, zeros) s = Add (c, r) p = Add (s, a) q = PRelu (p, a) y = Add (q, half)',
}


@pytest.mark.parametrize('name', FUSABLE)
def test_parts_of_a_block_may_be_missing(name):
    model = graph(FUSABLE[name])
    fused = apply_passes(model, FuseBlocks())
    assert [node.op_type for node in fused.graph.node] == ['BinaryClipBlock' if name == 'clipped' else 'BinaryBlock']
    feeds = given()
    assert np.array_equal(run(model, feeds)[0], run(fused, feeds)[0])


def given():
    rng = np.random.default_rng(0)
    shapes = {'x': (1, 8, 4, 4), 'r': (1, 8, 4, 4), 'row': (1, 1, 4, 4)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


KEPT = {
    # A norm after a bias would change the order of operations.
    'a bias before a factor': ('c = CONV (x, w, zeros, some, some) y = Mul (c, m)', {'BinaryConv': 1, 'Mul': 1}),
    'a residual that is broadcast': (
        'c = CONV (x, w, zeros, ones, zeros) y = Add (c, row)',
        {'BinaryConv': 1, 'Add': 1},
    ),
    'two factors': ('c = CONV (x, w, zeros, ones, zeros) d = Mul (c, m) y = Mul (d, m)', {'BinaryBlock': 1, 'Mul': 1}),
    'two clips': (
        'c = CONV (x, w, zeros, some, zeros) d = Clip (c, low, high) y = Clip (d, lower, higher)',
        {'BinaryClipBlock': 1, 'Clip': 1},
    ),
    'added to itself': ('c = CONV (x, w, zeros, ones, zeros) y = Add (c, c)', {'BinaryConv': 1, 'Add': 1}),
}


@pytest.mark.parametrize('name', KEPT)
def test_what_does_not_fit_stays_outside(name):
    body, expected = KEPT[name]
    fused = apply_passes(graph(body), FuseBlocks())
    assert Counter(node.op_type for node in fused.graph.node) == expected
    assert np.array_equal(run(graph(body), given())[0], run(fused, given())[0])


def test_a_value_that_something_else_reads_ends_the_block():
    body = 'c = CONV (x, w, zeros, some, zeros) d = Mul (c, m) e = Add (d, a) y = Add (e, r) z = Neg (e)'
    model = graph(body, 'float[1, 8, 4, 4] y, float[1, 8, 4, 4] z')
    fused = apply_passes(model, FuseBlocks())
    assert Counter(node.op_type for node in fused.graph.node) == {'BinaryBlock': 1, 'Add': 1, 'Neg': 1}
    for one, other in zip(run(model, given()), run(fused, given()), strict=True):
        assert np.array_equal(one, other)


SECOND = 'c = CONV (x, w, zeros, some, zeros) b = Mul (c, m)'
HANDED_ON = {
    'straight': (f'{SECOND} y = CONV (b, w, some, ones, zeros)', True),
    'through a clip': (f'{SECOND} k = Clip (b, low, high) y = CONV (k, w, zeros, ones, zeros)', True),
    'through a clip with a shift': (f'{SECOND} k = Clip (b, low, high) y = CONV (k, w, some, ones, zeros)', True),
    'past a clip': (f'{SECOND} k = Clip (b, low, high) e = CONV (k, w, zeros, ones, zeros) y = Add (e, b)', True),
    # The sign of clip(b) + shift is not that of b + shift.
    'past a clip and a shift': (
        f'{SECOND} k = Clip (b, low, high) e = CONV (k, w, some, ones, zeros) y = Add (e, b)',
        False,
    ),
    'a clip above zero': (f'{SECOND} k = Clip (b, above, high) y = CONV (k, w, zeros, ones, zeros)', False),
}


@pytest.mark.parametrize('name', HANDED_ON)
def test_bits_are_handed_on_where_no_sign_changes(name):
    body, packed = HANDED_ON[name]
    fused = apply_passes(graph(body), FuseBlocks())
    assert ('PackedBinaryConv' in [node.op_type for node in fused.graph.node]) == packed
    assert np.array_equal(run(graph(body), given())[0], run(fused, given())[0])


def test_two_readers_with_different_shifts():
    body = f'{SECOND} d = CONV (b, w, some, ones, zeros) e = CONV (b, w, zeros, ones, zeros) y = Add (d, e)'
    fused = apply_passes(graph(body), FuseBlocks())
    kinds = Counter(node.op_type for node in fused.graph.node)
    assert kinds['PackedBinaryConv'] == 1 and kinds['BinaryBlock'] == 2
    assert np.array_equal(run(graph(body), given())[0], run(fused, given())[0])


def test_a_grouped_convolution_reads_real_numbers():
    conv = lively(BinaryConv2d(8, 8, 3, padding=1, bias=False))
    grouped = lively(BinaryConv2d(8, 8, 3, padding=1, groups=2, bias=False))
    net = nn.Sequential(conv, nn.BatchNorm2d(8), grouped).eval()
    fused = apply_passes(trace(pack(net).model, {'x': torch.zeros(1, 8, 5, 5)}, ['y']), FuseBlocks())
    assert [node.op_type for node in fused.graph.node] == ['BinaryBlock', 'BinaryConv']
