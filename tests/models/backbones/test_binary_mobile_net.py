import pytest
import torch
from torch import nn
from torch.nn import functional

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BinaryMobileNet
from rebnn_mm.models.backbones.binary_mobile_net import BinaryMobileBlock
from rebnn_mm.models.blocks import BinaryReActBlock, BinaryReLUBlock
from tests.export.networks import lively
from tests.tolerances import FLOAT64_EXACT

REACT = dict(type='ReActConv2d')


def test_channels_and_weights_are_those_of_the_paper():
    with torch.device('meta'):
        net = BinaryMobileNet()
    binary = [m for m in net.modules() if isinstance(m, BinaryConv2d)]
    assert [m.out_channels for m in binary[1::2]] == [64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
    assert [m.stride[0] for m in binary[::2]] == [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
    # 28.25 million, counted from the released code.
    assert all(m.binary for m in binary) and sum(m.weight.numel() for m in binary) == 28_253_184


@pytest.mark.parametrize('widens', [True, False])
def test_block_is_the_written_out_function(widens):
    torch.manual_seed(0)
    block = lively(BinaryMobileBlock(BinaryReLUBlock, 4, 8 if widens else 4, stride=2).double())
    x = torch.randn(2, 4, 6, 8, dtype=torch.float64)
    y = functional.batch_norm(
        functional.conv2d(x, block.conv1.weight, stride=2, padding=1),
        block.bn1.running_mean, block.bn1.running_var, block.bn1.weight, block.bn1.bias,
    )  # fmt: skip
    y = (y + functional.avg_pool2d(x, 2)).relu()
    z = functional.batch_norm(
        functional.conv2d(y, block.conv2.weight),
        block.bn2.running_mean, block.bn2.running_var, block.bn2.weight, block.bn2.bias,
    )  # fmt: skip
    expected = (z + (torch.cat([y, y], 1) if widens else y)).relu()
    torch.testing.assert_close(block(x), expected, atol=FLOAT64_EXACT, rtol=0)


def test_two_halves_are_two_convolutions_under_one_sign():
    """As the released code has them: each with a norm of its own, added to the same input."""
    torch.manual_seed(0)
    block = lively(BinaryMobileBlock(BinaryReActBlock, 4, 8, conv_cfg=REACT))
    block.act2 = nn.Identity()
    seen = []
    block.conv2.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    whole = block(torch.randn(2, 4, 5, 6))
    (y,) = seen
    for part in (slice(0, 4), slice(4, 8)):
        half = BinaryMobileBlock(BinaryReActBlock, 4, 4, conv_cfg=REACT).eval()
        half.conv2.weight.data = block.conv2.weight[part]
        half.conv2.activation_quantizer = block.conv2.activation_quantizer
        norm = {name: getattr(block.bn2, name)[part] for name in ('weight', 'bias', 'running_mean', 'running_var')}
        half.bn2.load_state_dict({**norm, 'num_batches_tracked': torch.tensor(0)})
        torch.testing.assert_close(whole[:, part], half.bn2(half.conv2(y)) + y)


def test_shift_is_in_front_of_every_sign():
    with torch.device('meta'):
        net = BinaryMobileNet(base_channels=8)
        plain = BinaryMobileNet(base_channels=8, block='hardtanh', conv_cfg=dict(type='BNNConv2d'))
    shifts = [m.activation_quantizer.shift_start for m in net.modules() if isinstance(m, BinaryConv2d)]
    assert shifts == ['zero'] * 26
    assert {m.activation_quantizer.shift_start for m in plain.modules() if isinstance(m, BinaryConv2d)} == {None}


def test_other_widths_are_refused():
    with pytest.raises(ValueError, match='24 output channels for 8 are neither as many nor twice as many'):
        BinaryMobileBlock(BinaryReActBlock, 8, 24)
