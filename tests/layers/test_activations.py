import pytest
import torch

from rebnn_mm.layers import Maxout, RPReLU, SqueezeExcite


def test_rprelu_by_hand_and_for_any_rank():
    layer = RPReLU(2, slope=0.5)
    layer.shift_in.data = torch.tensor([1.0, -1.0])
    layer.shift_out.data = torch.tensor([0.25, -0.25])
    x = torch.tensor([[-3.0, 3.0]])
    expected = torch.tensor([[-2.0 * 0.5 + 0.25, 2.0 - 0.25]])
    assert torch.equal(layer(x), expected)
    assert torch.equal(layer(x.view(1, 2, 1, 1)), expected.view(1, 2, 1, 1))


def test_rprelu_starts_as_prelu():
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(RPReLU(3)(x), torch.nn.PReLU(3)(x))


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_rprelu_autocast_keeps_the_type_of_the_input(dtype):
    layer = RPReLU(3)
    layer.shift_in.data, layer.shift_out.data = torch.randn(2, 3)
    x = torch.randn(2, 3, 4, 4).to(dtype).requires_grad_()
    with torch.autocast('cpu', dtype):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype and layer.slope.grad.dtype == torch.float32
    torch.testing.assert_close(y.float(), layer(x.float()), atol=4 * torch.finfo(dtype).eps, rtol=0)


def test_maxout_by_hand_and_for_any_rank():
    layer = Maxout(2)
    layer.positive.data = torch.tensor([2.0, 3.0])
    layer.negative.data = torch.tensor([0.5, -1.0])
    x = torch.tensor([[-4.0, -4.0], [4.0, 4.0]])
    expected = torch.tensor([[-2.0, 4.0], [8.0, 12.0]])
    assert torch.equal(layer(x), expected)
    assert torch.equal(layer(x.view(2, 2, 1, 1)), expected.view(2, 2, 1, 1))


def test_maxout_starts_as_prelu():
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(Maxout(3)(x), torch.nn.PReLU(3)(x))


def test_maxout_each_half_trains_its_own_slope():
    layer = Maxout(1)
    layer(torch.tensor([[-4.0], [3.0]])).sum().backward()
    assert (layer.positive.grad.item(), layer.negative.grad.item()) == (3.0, -4.0)


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_maxout_autocast_keeps_the_type_of_the_input(dtype):
    layer = Maxout(3)
    x = torch.randn(2, 3, 4, 4).to(dtype).requires_grad_()
    with torch.autocast('cpu', dtype):
        y = layer(x)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype and layer.positive.grad.dtype == torch.float32
    assert torch.equal(y, layer(x.float()).to(dtype))


def test_squeeze_and_excite_by_hand():
    gate = SqueezeExcite(2, 2, out_channels=3)
    gate.squeeze.weight.data = torch.tensor([[1.0, 2.0]]).view(1, 2, 1, 1)
    gate.excite.weight.data = torch.tensor([1.0, -1.0, 0.0]).view(3, 1, 1, 1)
    gate.squeeze.bias.data, gate.excite.bias.data = torch.tensor([-1.0]), torch.tensor([0.0, 0.0, 5.0])
    x = torch.tensor([[[[1.0, 3.0]], [[0.0, 1.0]]], [[[-9.0, 3.0]], [[0.0, 1.0]]]])  # means 2 and 0.5, -3 and 0.5
    expected = torch.tensor([[2.0, -2.0, 5.0], [0.0, 0.0, 5.0]]).sigmoid()
    torch.testing.assert_close(gate(x), expected[:, :, None, None])


def test_squeeze_and_excite_is_an_eighth_as_wide_inside_but_one_channel_at_least():
    shapes = {
        c: [tuple(p.shape[:2]) for p in SqueezeExcite(c, out_channels=32, bias=False).parameters()] for c in (4, 16)
    }
    assert shapes == {4: [(1, 4), (32, 1)], 16: [(2, 16), (32, 2)]}
