"""Packed layers give what the trained ones give."""

import numpy as np
import pytest
import torch
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.export import PackedConv2d, PackedLinear, pack, trace
from rebnn_mm.export.packed_layers import ChannelAffine
from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.quantizers import ActivationQuantizer, Values, WeightQuantizer
from tests.export.graphs import run
from tests.export.networks import CENTRED, GEOMETRIES, METHODS, lively

SPECIAL = torch.tensor([0.0, -0.0, float('nan'), 1e-45, -1e-45])


def with_special_values(x):
    x = x.clone()
    x.view(-1)[: len(SPECIAL)] = SPECIAL
    return x


def method_layer(method, kind, *args, **kwargs):
    return lively(MODELS.get(f'{method}{kind}')(*args, **kwargs), seed=len(method))


@pytest.mark.parametrize('method', METHODS)
def test_every_method_gives_the_numbers_of_its_layer(method):
    conv = method_layer(method, 'Conv2d', 13, 12, 3, padding=1, bias=True)
    linear = method_layer(method, 'Linear', 13, 6)
    image = torch.randn(2, 13, 6, 5, generator=torch.Generator().manual_seed(0))
    for layer, packed, x in ((conv, PackedConv2d(conv), image), (linear, PackedLinear(linear), image[..., 0, 0])):
        x = x if method in CENTRED else with_special_values(x)  # its mean would be NaN
        with torch.no_grad():
            assert torch.equal(packed(x), layer(x))


@pytest.mark.parametrize('name', GEOMETRIES)
def test_every_geometry_gives_the_numbers_of_its_layer(name):
    conv = lively(BinaryConv2d(12, 24, **GEOMETRIES[name]))
    x = with_special_values(torch.randn(2, 12, 9, 8, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        assert torch.equal(PackedConv2d(conv)(x), conv(x))


class Branches(nn.Module):
    """Several layers that see the same input."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        return [layer(x) for layer in self.layers]


@pytest.fixture(scope='module')
def branches():
    """All methods and all geometries in one module, trained and packed, and traced with free sizes."""
    methods = [method_layer(method, 'Conv2d', 12, 6, 3, padding=1) for method in METHODS]
    trained = Branches([*methods, *(lively(BinaryConv2d(12, 24, **options)) for options in GEOMETRIES.values())])
    packed = pack(trained.eval()).model
    names = [f'y{i}' for i in range(len(trained.layers))]
    return trained, packed, trace(packed, {'x': torch.zeros(2, 12, 9, 8)}, names, {'x': [0, 2, 3]})


@pytest.mark.parametrize('size', [(2, 9, 8), (1, 14, 7)])
def test_the_graph_gives_the_same_numbers_at_any_size(branches, size):
    n, height, width = size
    x = torch.randn(n, 12, height, width, generator=torch.Generator().manual_seed(height))
    with torch.no_grad():
        expected = [y.numpy() for y in branches[1](x)]
    found = run(branches[2], {'x': x.numpy()})
    for name, one, other in zip([*METHODS, *GEOMETRIES], expected, found, strict=True):
        # The mean of RBNN and SiMaN is a sum that PyTorch and ONNX Runtime add up in another order; here no sign is
        # that close.
        assert np.array_equal(one, other), name


def test_the_graph_takes_the_sign_of_special_values_as_the_layer(branches):
    x = with_special_values(torch.randn(1, 12, 9, 8, generator=torch.Generator().manual_seed(1)))
    with torch.no_grad():
        expected = branches[0](x)
    for name, one, other in zip([*METHODS, *GEOMETRIES], expected, run(branches[2], {'x': x.numpy()}), strict=True):
        if name not in CENTRED:
            assert np.array_equal(one.numpy(), other), name


def test_a_linear_layer_behind_further_dimensions():
    linear = lively(BinaryLinear(9, 5))
    packed = pack(nn.Sequential(linear)).model
    model = trace(packed, {'x': torch.zeros(2, 3, 9)}, ['y'], {'x': [0, 1]})
    x = with_special_values(torch.randn(4, 2, 9))
    assert np.array_equal(run(model, {'x': x.numpy()})[0], linear(x).detach().numpy())


class HalfSign(ActivationQuantizer):
    """A method of somebody else: the sign of the difference from a running value."""

    values = Values('signs', sign_of='other')

    def __init__(self, channels, channel_dim=1, shift=None):
        super().__init__(channels, channel_dim, shift)
        self.register_buffer('threshold', torch.tensor(0.5))

    def quantize(self, x):
        return torch.where(x < self.threshold, -1.0, 1.0)


class Thirds(WeightQuantizer):
    """Weights that are not signs."""

    values = Values('signs')

    def codes(self, weight):
        return weight.clamp(-1, 1), None


def test_a_quantizer_that_is_not_known_is_traced_in_front():
    conv = lively(BinaryConv2d(8, 4, 3, padding=1, activation=dict(type=HalfSign)))
    packed = pack(nn.Sequential(conv)).model
    model = trace(packed, {'x': torch.zeros(1, 8, 4, 4)}, ['y'])
    x = torch.randn(1, 8, 4, 4)
    assert np.array_equal(run(model, {'x': x.numpy()})[0], conv(x).detach().numpy())


def test_weights_that_are_no_signs_are_refused_by_name():
    conv = BinaryConv2d(8, 4, 3, weight=dict(type=Thirds)).eval()
    with pytest.raises(ValueError, match='^1: a weight to pack holds a value that is neither'):
        pack(nn.Sequential(nn.ReLU(), conv))


def test_one_rounding_from_the_batch_norm():
    norm = lively(nn.BatchNorm2d(64))
    x = 10 * torch.randn(2, 64, 7, 7, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y, expected = ChannelAffine(norm)(x), norm(x)
        # Of x * mul and of the sum: two roundings here, one in a fused multiply-add.
        unit = torch.finfo(torch.float32).eps
        bound = unit * ((x * ChannelAffine(norm).mul.view(-1, 1, 1)).abs() + expected.abs())
    assert bool(((y - expected).abs() <= bound).all())


def test_the_constants_are_those_of_the_formula_in_float64():
    norm = lively(nn.BatchNorm1d(9))
    affine, exact = ChannelAffine(norm), norm.double()
    mul = exact.weight / (exact.running_var + exact.eps).sqrt()
    torch.testing.assert_close(affine.mul.double(), mul, rtol=3e-7, atol=0)
    torch.testing.assert_close(affine.add.double(), exact.bias - exact.running_mean * mul, rtol=1e-6, atol=1e-7)


def test_a_norm_without_weight_and_bias():
    norm = nn.BatchNorm1d(4, affine=False).eval()
    norm.running_mean.copy_(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    x = torch.randn(3, 4)
    torch.testing.assert_close(ChannelAffine(norm)(x), norm(x))
