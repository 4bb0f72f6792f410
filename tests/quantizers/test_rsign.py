import torch

from rebnn_mm.quantizers import BinaryRSign


def test_threshold_is_per_channel():
    rsign = BinaryRSign(2)
    rsign.shift.data = torch.tensor([0.5, -0.5])
    assert torch.equal(rsign(torch.tensor([[-0.4, 0.4], [-0.6, 0.6]])), torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))


def test_has_a_shift_even_where_the_block_has_none():
    assert BinaryRSign(2, shift=None).shift.tolist() == [0.0, 0.0]
