import numpy as np
import onnx
import pytest
import torch
from torch import nn

from rebnn_mm.export import apply_passes, pack, trace
from rebnn_mm.export.passes import FoldFactors, FoldNorms, FuseBlocks
from rebnn_mm.methods import ReBNNConv2d
from tests.export.graphs import run
from tests.export.networks import lively


class Shortcut(nn.Module):
    """A binary layer with a norm, and a real one with a norm next to it, whose result somebody else may want, too."""

    def __init__(self, shared):
        super().__init__()
        self.conv, self.norm = ReBNNConv2d(8, 6, 1, bias=False), nn.BatchNorm2d(6)
        self.beside = nn.Sequential(nn.Conv2d(8, 6, 1, bias=False), nn.BatchNorm2d(6))
        self.shared = shared

    def forward(self, x):
        beside = self.beside(x)
        y = self.norm(self.conv(x)) + beside
        return (y, beside) if self.shared else y


@pytest.mark.parametrize('shared', [False, True])
def test_a_block_has_one_factor_and_the_shortcuts_bias(shared):
    net = lively(Shortcut(shared))
    outputs = ['y', 'beside'] if shared else ['y']
    before = trace(pack(net).model, {'x': torch.zeros(2, 8, 4, 5)}, outputs, {'x': [0, 2, 3]})
    before = apply_passes(before, FuseBlocks(), FoldNorms())
    after = apply_passes(before, FoldFactors())
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in after.graph.initializer}
    (block,) = (node for node in after.graph.node if node.op_type == 'BinaryBlock')
    (conv,) = (node for node in after.graph.node if node.op_type == 'Conv')
    assert (constants[block.input[4]] == 1).all() and not (constants[block.input[3]] == 1).any()
    assert len(conv.input) == (3 if shared else 2)
    x = torch.randn(2, 8, 4, 5, generator=torch.Generator().manual_seed(0)).numpy()
    for found, expected in zip(run(after, {'x': x}), run(before, {'x': x}), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_nothing_to_fold():
    net = nn.Sequential(ReBNNConv2d(8, 6, 1, bias=False), nn.ReLU())
    model = apply_passes(trace(pack(net).model, {'x': torch.zeros(2, 8, 4, 4)}, ['y']), FuseBlocks())
    assert apply_passes(model, FoldFactors()) is model
