import torch

from rebnn_mm.methods import XNORWeight
from tests.tolerances import FLOAT64_EXACT


def test_hand_worked_values():
    w = torch.tensor([[0.5, -1.5, 0.0, 0.4]])
    torch.testing.assert_close(XNORWeight((1, 4))(w), torch.tensor([[0.6, -0.6, 0.6, 0.6]]))


def test_gradient_is_g_times_alpha_inside_one_plus_one_over_n():
    w = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    upstream = torch.randn(5, 4, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (XNORWeight((5, 4, 3, 3))(w) * upstream).sum().backward()
    alpha = w.detach().abs().mean(dim=(1, 2, 3)).view(-1, 1, 1, 1)
    expected = upstream * (alpha * (w.detach().abs() <= 1) + 1 / 36)
    torch.testing.assert_close(w.grad, expected, atol=FLOAT64_EXACT, rtol=0)


def test_weights_are_centred_over_the_input_channels_and_clamped():
    w = torch.tensor([[[[1.0, 2.0]], [[3.0, -2.0]]]])  # one filter, two input channels, 1x2
    XNORWeight((1, 2, 1, 2)).constrain(w)
    assert w.tolist() == [[[[-1.0, 1.0]], [[1.0, -1.0]]]]


def test_a_depthwise_filter_is_not_erased():
    w = torch.tensor([[[[0.5, -2.0]]]])
    XNORWeight((1, 1, 1, 2)).constrain(w)
    assert w.tolist() == [[[[0.5, -1.0]]]]
