import pytest
import torch
from torch import nn

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import QuickNet
from rebnn_mm.models.backbones.quick_net import LARQ, BlurPool, QuickNetBlock

PRINTED = {'small': (12_655_688, 4.00), 'base': (13_234_088, 4.17), 'large': (23_342_248, 5.40)}
"""Parameters and MiB of Larq Zoo's pages, with a classifier of 1000 classes."""


@pytest.mark.parametrize('arch', PRINTED)
def test_size_is_the_published_one(arch):
    """Published is the size with two values per channel of each norm and with the fixed filters."""
    parameters, mebibytes = PRINTED[arch]
    with torch.device('meta'):
        net = QuickNet(arch)
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    found = sum(p.numel() for p in net.parameters()) + 512 * 1000 + 1000
    found += sum(2 * m.num_features for m in norms if not m.affine)
    found += sum(m.kernel.numel() for m in net.modules() if isinstance(m, BlurPool))
    assert found == parameters
    bits = sum(m.weight.numel() for m in net.modules() if isinstance(m, BinaryConv2d) and m.binary)
    assert (bits / 8 + 4 * (found - bits)) / 2**20 == pytest.approx(mebibytes, abs=0.005)


def test_block_by_hand():
    block = QuickNetBlock(2, conv_cfg=LARQ).eval()
    block.conv.weight.data = torch.ones(2, 2, 3, 3)
    x = torch.tensor([[-1.0, 2.0], [-3.0, 0.0]]).expand(1, 2, 2, 2)
    # In each channel five values of the border, which is +1, and all four of the map, two of them +1.
    torch.testing.assert_close(block(x), x + 10.0, atol=1e-4, rtol=0)
    block.conv.weight.data *= -1
    assert torch.equal(block(x), x)  # negative sums are cut off


def test_blur_keeps_the_mean_of_a_smooth_map():
    torch.manual_seed(0)
    pool = BlurPool(3)
    inside = pool(torch.full((1, 3, 9, 9), 2.0))[:, :, 1:-1, 1:-1]
    assert torch.equal(inside, torch.full_like(inside, 2.0))
    assert not list(pool.parameters()) and not pool.state_dict()


def test_weights_and_gradients_end_at_one_and_a_quarter():
    conv = QuickNetBlock(2, conv_cfg=LARQ).conv
    weight = torch.tensor([2.0])
    conv.weight_quantizer.constrain(weight)
    assert (weight.item(), conv.activation_quantizer.width, conv.pad_value) == (1.25, 1.25, 1)


def test_wrong_arch_is_refused():
    with pytest.raises(ValueError, match="arch='xl' is unknown. Use one of 'small', 'base', 'large'"):
        QuickNet('xl')
