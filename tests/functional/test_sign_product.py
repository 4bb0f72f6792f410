import pytest
import torch
from torch.nn import functional

from rebnn_mm.functional.sign_product import Geometry, conv_gradients, linear_gradients
from tests.tolerances import FLOAT64_EXACT


def gradients(y, *inputs):
    torch.manual_seed(1)
    return torch.autograd.grad(y, inputs, torch.randn_like(y))


@pytest.mark.parametrize('geometry', [((1, 1), (1, 1), (1, 1), 1), ((2, 1), (0, 2), (1, 2), 2)])
def test_gives_the_value_and_the_gradients_of_a_convolution(geometry):
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(6, 4 // geometry[-1], 3, 3, dtype=torch.float64, requires_grad=True)
    convolved = functional.conv2d(x, w, None, *geometry)
    given = conv_gradients(x, w, convolved.detach() + 1, Geometry(*geometry))
    assert torch.equal(given, convolved + 1)
    for ours, theirs in zip(gradients(given, x, w), gradients(convolved, x, w), strict=True):
        torch.testing.assert_close(ours, theirs, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_gives_the_value_and_the_gradients_of_a_product():
    torch.manual_seed(0)
    x = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    product = functional.linear(x, w)
    given = linear_gradients(x, w, product.detach() + 1)
    assert torch.equal(given, product + 1)
    for ours, theirs in zip(gradients(given, x, w), gradients(product, x, w), strict=True):
        torch.testing.assert_close(ours, theirs, atol=FLOAT64_EXACT, rtol=FLOAT64_EXACT)


def test_computes_only_the_gradients_that_are_wanted():
    x, w = torch.ones(1, 2, 3, 3), torch.ones(1, 2, 3, 3, requires_grad=True)
    conv_gradients(x, w, torch.zeros(1, 1, 1, 1), Geometry((1, 1), (0, 0), (1, 1), 1)).sum().backward()
    assert x.grad is None and w.grad.tolist() == torch.ones(1, 2, 3, 3).tolist()


def test_what_comes_behind_may_work_in_place():
    x, w = torch.randn(1, 2, 4, 4, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
    value = torch.nn.functional.conv2d(x, w)
    found = torch.autograd.grad(
        conv_gradients(x, w, value.detach().clone(), Geometry((1, 1), (0, 0), (1, 1), 1)).relu_().sum(), (x, w)
    )
    for ours, theirs in zip(found, torch.autograd.grad(value.relu().sum(), (x, w)), strict=True):
        torch.testing.assert_close(ours, theirs)
