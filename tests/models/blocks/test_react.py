import torch

from rebnn_mm.layers import BinaryRPReLU
from rebnn_mm.models import BinaryReActBlock


def test_rprelu_follows_each_addition():
    block = BinaryReActBlock(4, 4, conv_cfg=dict(type='ReBNNConv2d'))
    assert [type(act) for act in (block.act1, block.act2)] == [BinaryRPReLU, BinaryRPReLU]
    torch.nn.init.zeros_(block.bn1.weight)
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.randn(2, 4, 3, 3)
    assert torch.equal(block(x), block.act2(block.act1(x)))


def test_shift_starts_at_zero_and_asks_for_no_data():
    block = BinaryReActBlock(4, 4, conv_cfg=dict(type='ReBNNConv2d'))
    for conv in (block.conv1, block.conv2):
        assert not conv.activation_quantizer.needs_calibration
        assert torch.equal(conv.activation_quantizer.shift.data, torch.zeros(4))
