from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

from rebnn_mm.export import apply_passes, pack, trace
from rebnn_mm.export.passes import FoldNorms
from tests.export.graphs import parsed, run
from tests.export.networks import lively
from tests.tolerances import FLOAT32_ROUNDING


@pytest.mark.parametrize('bias', [False, True])
def test_a_norm_goes_into_its_convolution(bias):
    net = lively(nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, bias=bias), nn.BatchNorm2d(6), nn.ReLU()))
    before = trace(pack(net).model, {'x': torch.zeros(2, 3, 8, 8)}, ['y'], {'x': [0, 2, 3]})
    after = apply_passes(before, FoldNorms())
    assert [node.op_type for node in after.graph.node] == ['Conv', 'Relu']
    assert len(after.graph.initializer) == 2
    x = torch.randn(1, 3, 9, 10, generator=torch.Generator().manual_seed(0))
    expected = net(x).detach().numpy()
    for model in (before, after):
        np.testing.assert_allclose(run(model, {'x': x.numpy()})[0], expected, rtol=0, atol=2 * FLOAT32_ROUNDING)


class Shared(nn.Module):
    """One convolution for two levels, as detectors have, and each with a norm of its own after the other use."""

    def __init__(self):
        super().__init__()
        self.conv, self.norms = nn.Conv2d(3, 4, 1), nn.ModuleList(nn.BatchNorm2d(4) for _ in range(2))

    def forward(self, x):
        return [self.norms[level](self.conv(x + level + use)) for level in (0, 1) for use in (1, 2)]


def test_levels_share_a_weight_where_they_share_the_norm():
    net = lively(Shared())
    before = trace(pack(net).model, {'x': torch.zeros(2, 3, 4, 4)}, list('abcd'))
    after = apply_passes(before, FoldNorms())
    assert Counter(node.op_type for node in after.graph.node)['Conv'] == 4
    assert len({node.input[1] for node in after.graph.node if node.op_type == 'Conv'}) == 2
    x = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    for found, expected in zip(run(after, {'x': x.numpy()}), net(x), strict=True):
        np.testing.assert_allclose(found, expected.detach().numpy(), rtol=0, atol=2 * FLOAT32_ROUNDING)


def test_one_constant_that_multiplies_and_is_added_is_two_norms():
    model = parsed(
        'g (float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y, float[1, 2, 2, 2] z) <float[2, 2, 1, 1] w = {1, 2, 3, 4}, '
        'float[2, 1, 1] m = {2, 3}> {c = Conv (x, w) y = Mul (c, m) d = Conv (x, w) z = Add (d, m)}'
    )
    x = {'x': np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)}
    for found, expected in zip(run(apply_passes(model, FoldNorms()), x), run(model, x), strict=True):
        np.testing.assert_array_equal(found, expected)


KEPT = {
    'somebody reads what lies between': ('c = Conv (x, w) y = Mul (c, m) z = Neg (c)', 3),
    'the result is an output': ('y = Conv (x, w) z = Mul (y, m)', 2),
    'a factor per position': ('c = Conv (x, w) y = Mul (c, plane) z = Neg (x)', 3),
    'no constant': ('c = Conv (x, w) y = Mul (c, x) z = Neg (x)', 3),
}


@pytest.mark.parametrize('name', KEPT)
def test_what_is_no_norm_stays(name):
    body, nodes = KEPT[name]
    model = parsed(
        'g (float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y, float[1, 2, 2, 2] z) <float[2, 2, 1, 1] w = {1, 2, 3, 4}, '
        f'float[2, 1, 1] m = {{2, 3}}, float[2, 2] plane = {{1, 2, 3, 4}}> {{{body}}}'
    )
    assert len(apply_passes(model, FoldNorms()).graph.node) == nodes
