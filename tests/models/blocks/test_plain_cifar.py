import torch
from torch.nn import functional

from rebnn_mm.models.blocks import PlainCIFARBlock
from tests.tolerances import FLOAT64_EXACT


def test_is_the_written_out_network():
    torch.manual_seed(0)
    block = PlainCIFARBlock(4, 8, stride=2).double().eval()
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    scale = (1 + 1e-5) ** -0.5
    y = functional.relu(functional.conv2d(x, block.conv1.weight, stride=2, padding=1) * scale)
    z = functional.conv2d(y, block.conv2.weight, padding=1) * scale
    expected = functional.relu(z + functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)))
    torch.testing.assert_close(block(x), expected, atol=FLOAT64_EXACT, rtol=0)


def test_holds_nothing_but_two_convolutions_and_norms():
    names = {name.split('.')[0] for name, _ in PlainCIFARBlock(4, 8, stride=2).named_parameters()}
    assert names == {'conv1', 'bn1', 'conv2', 'bn2'}
