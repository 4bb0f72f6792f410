import pytest
import torch
from torch.nn import functional

from rebnn_mm.functional import sign
from rebnn_mm.functional.sign_product import LINEAR, Geometry, sign_product, sign_sums, smallest_type
from tests.tolerances import FLOAT64_EXACT

GEOMETRIES = [Geometry((1, 1), (1, 1), (1, 1), 1), Geometry((2, 1), (0, 2), (1, 2), 2), LINEAR]


def signs(*shape):
    return sign(torch.randn(*shape, dtype=torch.float64))


def example(geometry):
    torch.manual_seed(0)
    factor = torch.rand(6, dtype=torch.float64) + 0.5
    if not geometry.stride:
        return signs(2, 5, 4), signs(6, 4), factor, factor[:, None]
    return signs(2, 4, 7, 6), signs(6, 4 // geometry.groups, 3, 3), factor, factor.view(-1, 1, 1, 1)


@pytest.mark.parametrize('geometry', GEOMETRIES, ids=str)
def test_gives_the_value_and_the_gradients_of_the_product(geometry):
    x, codes, factor, wide = example(geometry)
    x.requires_grad_()
    weight = (codes * wide).requires_grad_()
    plain = functional.conv2d(x, weight, None, *geometry) if geometry.stride else functional.linear(x, weight)
    ours = sign_product(x, weight, codes, factor, geometry)
    torch.testing.assert_close(ours, plain, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)
    upstream = torch.randn_like(plain)
    expected = torch.autograd.grad(plain, (x, weight), upstream)
    for a, b in zip(torch.autograd.grad(ours, (x, weight), upstream), expected, strict=True):
        torch.testing.assert_close(a, b, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


@pytest.mark.parametrize('geometry', GEOMETRIES, ids=str)
def test_signs_and_their_factor_receive_what_the_product_gives_each(geometry):
    x, codes, factor, _ = example(geometry)
    learned = codes.requires_grad_(), factor.requires_grad_()
    weight = codes * factor.view(-1, *[1] * (codes.dim() - 1))
    plain = functional.conv2d(x, weight, None, *geometry) if geometry.stride else functional.linear(x, weight)
    upstream = torch.randn_like(plain)
    found = torch.autograd.grad(sign_product(x, None, codes, factor, geometry), learned, upstream)
    for ours, expected in zip(found, torch.autograd.grad(plain, learned, upstream), strict=True):
        torch.testing.assert_close(ours, expected, atol=100 * FLOAT64_EXACT, rtol=FLOAT64_EXACT)


@pytest.mark.parametrize('geometry', GEOMETRIES, ids=str)
def test_integer_sums_change_nothing(geometry):
    x, codes, factor, wide = example(geometry)
    weight = (codes * wide).requires_grad_()
    kept = smallest_type(codes[0].numel(), torch.float64)
    assert kept == torch.int8
    ours = sign_product(x, weight, codes, factor, geometry, kept=kept)
    assert torch.equal(ours, sign_product(x, weight, codes, factor, geometry))


def test_keeps_bits_and_a_factor():
    x, codes, factor, wide = example(GEOMETRIES[0])
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        sign_product(x.requires_grad_(), (codes * wide).requires_grad_(), codes, factor, GEOMETRIES[0])
    assert [(t.dtype, t.numel()) for t in kept] == [
        (torch.uint8, x.numel() // 8),
        (torch.uint8, codes.numel() // 8),
        (torch.float64, 6),
    ]


def test_computes_only_the_gradients_that_are_wanted():
    x, codes, factor, wide = example(GEOMETRIES[0])
    weight = (codes * wide).requires_grad_()
    sign_product(x, weight, codes, factor, GEOMETRIES[0]).sum().backward()
    assert x.grad is None and weight.grad.abs().sum() > 0


@pytest.mark.parametrize('geometry', GEOMETRIES, ids=str)
def test_the_operator_is_registered_as_pytorch_asks(geometry):
    x, codes, *_ = example(geometry)
    stride, padding, dilation, groups = geometry
    arguments = (x.float(), codes.float(), stride, padding, dilation, groups, torch.float32, torch.int16)
    torch.library.opcheck(sign_sums, arguments)


@pytest.mark.parametrize('geometry', GEOMETRIES, ids=str)
def test_operations_are_counted_as_those_of_the_real_layer(geometry):
    from torch.utils.flop_counter import FlopCounterMode

    x, codes, factor, _ = example(geometry)
    counts = []
    for call in (
        lambda: sign_product(x, codes, codes, factor, geometry),
        lambda: functional.conv2d(x, codes, None, *geometry) if geometry.stride else functional.linear(x, codes),
    ):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            call()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0
