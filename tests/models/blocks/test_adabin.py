import torch
from torch.nn import functional

from rebnn_mm.models.blocks import BinaryAdaBinBlock
from tests.tolerances import FLOAT64_EXACT

BINARY = dict(type='BinaryConv2d', weight='AdaBinWeight', activation='AdaBinActivation')


def two_values(x, centre, distance):
    return centre + distance * torch.where(x < centre, -1.0, 1.0).to(x.dtype)


def test_is_the_written_out_network():
    torch.manual_seed(0)
    block = BinaryAdaBinBlock(4, 8, stride=2, conv_cfg=BINARY).double().eval()
    for conv in (block.conv1, block.conv2):
        conv.activation_quantizer.beta.data.fill_(0.2)
        conv.activation_quantizer.alpha.data.fill_(0.6)
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)

    def convolved(conv, x, stride):
        w = conv.weight
        mean, deviation = w.mean((1, 2, 3), keepdim=True), w.std((1, 2, 3), correction=0, keepdim=True)
        x = functional.pad(two_values(x, 0.2, 0.6), (1, 1, 1, 1))
        return functional.conv2d(x, two_values(w, mean, deviation), stride=stride) / (1 + 1e-5) ** 0.5

    shortcut = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2))
    y = functional.leaky_relu(convolved(block.conv1, x, 2) + shortcut, 0.25)
    z = functional.leaky_relu(convolved(block.conv2, y, 1) + y, 0.25)
    torch.testing.assert_close(block(x), z, atol=100 * FLOAT64_EXACT, rtol=0)


def test_everything_trains():
    block = BinaryAdaBinBlock(4, 4, conv_cfg=BINARY)
    block(torch.randn(2, 4, 5, 5)).square().mean().backward()
    assert all(parameter.grad is not None for parameter in block.parameters())
    assert block.conv1.weight.grad.abs().sum() > 0
