"""Layers of two free values give, packed, what the trained ones give."""

import numpy as np
import pytest
import torch
from torch import nn

from rebnn_mm.deploy.session import library_available, open_session
from rebnn_mm.export import apply_passes, pack, trace
from rebnn_mm.export.passes import FoldNorms, FuseBlocks, SpreadNorms
from rebnn_mm.export.passes.int8 import choose
from rebnn_mm.export.two_valued import MaxoutAsPReLU, TwoValuedConv2d, TwoValuedLinear, two_values_of
from rebnn_mm.layers import BinaryConv2d, BinaryLinear, Maxout
from rebnn_mm.methods import AdaBinActivation, DoReFaConv2d
from rebnn_mm.models.blocks import BinaryAdaBinBlock
from tests.export.graphs import run
from tests.export.networks import GEOMETRIES, lively
from tests.tolerances import FLOAT32_ROUNDING

ADABIN = dict(weight='AdaBinWeight', activation=dict(type='AdaBinActivation', variant='official'))
VALUES = {
    'official': ADABIN,
    'paper': dict(ADABIN, activation='AdaBinActivation'),
    'with the released estimator': dict(ADABIN, weight='AdaBinEDEWeight'),
    'with a shift': dict(ADABIN, activation=dict(type='AdaBinActivation', shift='zero')),
    'its weights only': dict(ADABIN, activation='BinarySign'),
    'its weights after a mean': dict(ADABIN, activation='RBNNSign'),
    'its inputs only': dict(weight='BinaryMeanScaleWeight', activation='AdaBinActivation'),
    'zero and one': dict(weight='BinaryMeanScaleWeight', activation=dict(type='DoReFaActivation', bits=1)),
    'a step': dict(weight='BinaryMeanScaleWeight', activation='BinaryStep'),
}
SUMS = 20 * FLOAT32_ROUNDING
"""A hundred products, with values of about one, in another order."""


def moved(layer: nn.Module, alpha: float = 0.7, beta: float = 0.3) -> nn.Module:
    """A lively layer or net, and its inputs' two values away from where they start."""
    layer = lively(layer)
    for module in layer.modules():
        if isinstance(module, AdaBinActivation):
            module.alpha.data, module.beta.data = torch.tensor(alpha), torch.tensor(beta)
    return layer


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize('name', VALUES)
def test_all_values_of_layers(name):
    conv = moved(BinaryConv2d(12, 8, 3, padding=1, **VALUES[name]))
    linear = moved(BinaryLinear(12, 8, **VALUES[name]))
    for layer, kind, x in ((conv, TwoValuedConv2d, noise(2, 12, 5, 6)), (linear, TwoValuedLinear, noise(2, 12))):
        values = two_values_of(layer)
        torch.testing.assert_close(kind(layer, values)(x), layer(x), rtol=0, atol=SUMS)


@pytest.mark.parametrize('name', GEOMETRIES)
def test_every_geometry(name):
    conv = moved(BinaryConv2d(12, 24, **ADABIN, **GEOMETRIES[name]))
    x = noise(2, 12, 9, 8)
    torch.testing.assert_close(pack(conv).model(x), conv(x), rtol=0, atol=SUMS)


def test_a_graph_at_another_size():
    conv = moved(BinaryConv2d(12, 24, (2, 4), padding='same', groups=3, **ADABIN))
    model = trace(pack(conv).model, {'x': noise(2, 12, 9, 8)}, ['y'], {'x': [0, 2, 3]})
    x = noise(1, 12, 12, 11)
    np.testing.assert_allclose(run(model, {'x': x.numpy()})[0], conv(x), rtol=0, atol=SUMS)


@pytest.mark.parametrize('variant', ['paper', 'official'])
@pytest.mark.parametrize('alpha', [-0.5, 0.5])
def test_an_input_that_is_the_centre_itself_has_the_sign_it_has_in_training(variant, alpha):
    conv = moved(
        BinaryConv2d(4, 4, 1, weight='AdaBinWeight', activation=dict(type='AdaBinActivation', variant=variant))
    )
    conv.activation_quantizer.alpha.data.fill_(alpha)
    around = np.float32(0.3)
    x = torch.tensor([np.nextafter(around, np.float32(-1)), around, np.nextafter(around, np.float32(1)), 0.3])
    x = x.view(1, 4, 1, 1)
    torch.testing.assert_close(TwoValuedConv2d(conv, two_values_of(conv))(x), conv(x), rtol=0, atol=SUMS)


def test_one_half_is_zero_to_dorefa():
    conv = lively(
        DoReFaConv2d(
            4, 4, 1, weight=dict(type='DoReFaWeight', bits=1), activation=dict(VALUES['zero and one']['activation'])
        )
    )
    x = torch.tensor([0.5, np.nextafter(np.float32(0.5), np.float32(1)), 0.49, 9.0]).view(1, 4, 1, 1)
    torch.testing.assert_close(pack(conv).model(x), conv(x), rtol=0, atol=SUMS)


def test_maxout_becomes_a_prelu_only_where_it_is_one():
    maxout = Maxout(3)
    maxout.positive.data, maxout.negative.data = torch.tensor([0.5, 1.2, 3.0]), torch.tensor([-0.4, 0.0, 3.5])
    x = noise(2, 3, 4, 4)
    with torch.no_grad():
        torch.testing.assert_close(MaxoutAsPReLU(maxout)(x), maxout(x), rtol=FLOAT32_ROUNDING, atol=0)
    assert isinstance(pack(nn.Sequential(maxout)).model[0], MaxoutAsPReLU)
    maxout.positive.data[1] = -0.1
    assert isinstance(pack(nn.Sequential(maxout)).model[0], Maxout)


def test_a_block_with_its_norms_in_one_operator_each():
    block = moved(BinaryAdaBinBlock(8, 16, stride=2, conv_cfg=dict(type='BinaryConv2d', **ADABIN)))
    traced = trace(pack(block).model, {'x': noise(2, 8, 6, 6)}, ['y'], {'x': [0, 2, 3]})
    model = apply_passes(traced, SpreadNorms(), FuseBlocks(), FoldNorms())
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count('BinaryBlock') == 2 and kinds.count('PRelu') == 0
    assert kinds.count('Conv') == 2 and kinds.count('Mul') == 2  # the factors of Maxout; those of the norms are gone
    assert not any(choice.int8 for choice in choose(model, 'all'))  # what corrects signs stays exact
    x = noise(1, 8, 10, 8)
    expected = block(x).numpy()
    np.testing.assert_allclose(run(model, {'x': x.numpy()})[0], expected, rtol=0, atol=2 * SUMS)
    if library_available():
        ours, theirs = (open_session(model.SerializeToString(), library=library) for library in (True, False))
        assert np.array_equal(ours.run(None, {'x': x.numpy()})[0], theirs.run(None, {'x': x.numpy()})[0])


def test_graphs_of_signs_are_left_alone():
    net = lively(nn.Sequential(BinaryConv2d(8, 8, 3), nn.BatchNorm2d(8)))
    model = trace(pack(net).model, {'x': torch.ones(1, 8, 4, 4)}, ['y'])
    assert apply_passes(model, SpreadNorms()) is model
