import torch

from rebnn_mm.quantizers import BinaryStep


def test_by_hand():
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], requires_grad=True)
    y = BinaryStep(1)(x)
    y.sum().backward()
    assert y.tolist() == [0, 0, 1, 1, 1] and x.grad.tolist() == [0, 1, 1, 1, 0]


def test_every_probability_becomes_one():
    assert BinaryStep(1)(torch.randn(3, 8).softmax(-1)).eq(1).all()
