import pytest
import torch

from rebnn_mm.quantizers import TernaryBERTActivation


def test_by_hand():
    x = torch.tensor([[0.5, -1.5, 4.0], [0.1, 0.3, -0.4]], requires_grad=True)
    y = TernaryBERTActivation(3, -1)(x)
    y.sum().backward()
    torch.testing.assert_close(y.detach(), torch.tensor([[0.0, -2.5, 2.5], [0.0, 0.4, -0.4]]))
    assert x.grad.tolist() == [[1, 1, 0], [1, 1, 1]]


def test_one_maximum_for_the_tensor():
    x = torch.tensor([[0.5, -1.5, 2.0], [0.1, 0.3, -0.4]])
    assert TernaryBERTActivation(3, -1, over='tensor')(x).tolist() == [[0, -2, 2], [0, 0, 0]]


def test_other_tokens_do_not_change_a_token_by_default():
    x = torch.randn(2, 5, 4)
    quantizer = TernaryBERTActivation(4, -1)
    assert torch.equal(quantizer(x)[:, :3], quantizer(x[:, :3]))


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="over='batch' is unknown; use 'sample' or 'tensor'"):
        TernaryBERTActivation(3, over='batch')
    with pytest.raises(ValueError, match='must be a whole number from 2 to 8'):
        TernaryBERTActivation(3, bits=1)
