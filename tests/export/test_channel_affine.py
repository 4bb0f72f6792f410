import torch
from torch import nn

from rebnn_mm.export.channel_affine import ChannelAffine
from tests.export.networks import lively


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
