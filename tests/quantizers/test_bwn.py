import pytest
import torch

from rebnn_mm.quantizers import BWNWeight


def test_by_hand():
    w = torch.tensor([[0.5, -1.5], [3.0, -1.0]], requires_grad=True)
    w_hat = BWNWeight((2, 2))(w)
    (w_hat * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert w_hat.tolist() == [[1.5, -1.5], [1.5, -1.5]] and w.grad.tolist() == [[1, 2], [3, 4]]
    assert BWNWeight((2, 2), per='channel')(w).tolist() == [[1, -1], [2, -2]]


def test_unknown_extent_is_refused():
    with pytest.raises(ValueError, match="BWNWeight: per='row' is unknown"):
        BWNWeight((2, 2), per='row')
