import pytest
import torch

from rebnn_mm.methods import BNNWeight


def test_hand_worked_values_gradient_and_clamp():
    w = torch.tensor([[0.5, -1.5, 0.0]], dtype=torch.float64, requires_grad=True)
    upstream = torch.tensor([[2.0, -3.0, 0.25]], dtype=torch.float64)
    quantizer = BNNWeight((1, 3))
    out = quantizer(w)
    (out * upstream).sum().backward()
    assert out.tolist() == [[1.0, -1.0, 1.0]]
    # The straight-through gradient is not masked: a weight outside one may come back.
    assert torch.equal(w.grad, upstream)
    quantizer.constrain(w.data)
    assert w.tolist() == [[0.5, -1.0, 0.0]]


def test_has_no_factor():
    assert BNNWeight((1, 3)).codes(torch.ones(1, 3))[1] is None


def test_bound_is_an_option():
    w = torch.tensor([[0.5, -1.5, 1.1]])
    BNNWeight((1, 3), bound=1.25).constrain(w)
    assert w.tolist()[0][:2] == [0.5, -1.25] and w[0, 2] == torch.tensor(1.1)
    with pytest.raises(ValueError, match='bound=0 must be above 0'):
        BNNWeight((1, 3), bound=0)
