import pytest
import torch

from rebnn_mm.layers import BinaryMaxout


def test_by_hand_and_for_any_rank():
    layer = BinaryMaxout(2)
    layer.positive.data = torch.tensor([2.0, 3.0])
    layer.negative.data = torch.tensor([0.5, -1.0])
    x = torch.tensor([[-4.0, -4.0], [4.0, 4.0]])
    expected = torch.tensor([[-2.0, 4.0], [8.0, 12.0]])
    assert torch.equal(layer(x), expected)
    assert torch.equal(layer(x.view(2, 2, 1, 1)), expected.view(2, 2, 1, 1))


def test_starts_as_prelu():
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(BinaryMaxout(3)(x), torch.nn.PReLU(3)(x))


def test_each_half_trains_its_own_slope():
    layer = BinaryMaxout(1)
    layer(torch.tensor([[-4.0], [3.0]])).sum().backward()
    assert (layer.positive.grad.item(), layer.negative.grad.item()) == (3.0, -4.0)


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_autocast_keeps_the_type_of_the_input(dtype):
    layer = BinaryMaxout(3)
    x = torch.randn(2, 3, 4, 4).to(dtype).requires_grad_()
    with torch.autocast('cpu', dtype):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype and layer.positive.grad.dtype == torch.float32
    assert torch.equal(y, layer(x.float()).to(dtype))
