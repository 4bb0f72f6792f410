import pytest
import torch
from torch import nn

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import MeliusNet
from rebnn_mm.models.backbones.melius_net import MELIUS, MeliusBlock


def test_size_is_the_published_one():
    """Of Larq Zoo's page, with a classifier of 1000 classes: two values per channel of each norm."""
    with torch.device('meta'):
        net = MeliusNet(22)
    found = sum(p.numel() for p in net.parameters()) + 512 * 1000 + 1000
    assert found == 6_944_584
    bits = sum(m.weight.numel() for m in net.modules() if isinstance(m, BinaryConv2d) and m.binary)
    assert (bits / 8 + 4 * (found - bits)) / 2**20 == pytest.approx(3.88, abs=0.005)


def test_transitions_leave_the_published_channels():
    with torch.device('meta'):
        net = MeliusNet(22)
    reductions = [m for m in net.modules() if type(m) is nn.Conv2d and m.kernel_size == (1, 1)]
    assert [(m.in_channels, m.out_channels) for m in reductions] == [(320, 160), (480, 224), (480, 256)]
    binary = [m for m in net.modules() if isinstance(m, BinaryConv2d)]
    assert len(binary) == 34 and {m.out_channels for m in binary} == {64}


def test_block_adds_channels_and_improves_only_these():
    torch.manual_seed(0)
    block = MeliusBlock(6, 4, conv_cfg=MELIUS).eval()
    x = torch.randn(2, 6, 5, 3)
    out = block(x)
    assert torch.equal(out[:, :6], x)
    added = block.conv1(block.bn1(x))
    improvement = block.conv2(block.bn2(torch.cat([x, added], 1)))
    assert torch.equal(out[:, 6:], added + improvement)
    # Sums of signs, without a factor.
    assert torch.equal(out[:, 6:], out[:, 6:].round())


@pytest.mark.parametrize(
    ('options', 'message'),
    [(dict(depth=23), 'depth=23 is not available. Use 22'), (dict(base_channels=24), 'must be a multiple of 16')],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MeliusNet(**options)
