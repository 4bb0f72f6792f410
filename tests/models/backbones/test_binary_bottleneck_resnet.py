import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BinaryBottleneckResNet
from rebnn_mm.models.backbones.binary_bottleneck_resnet import BinaryBottleneck, LeakyClip
from rebnn_mm.models.blocks import BinaryBiRealBlock, BinaryHardtanhBlock
from tests.export.networks import lively
from tests.tolerances import FLOAT64_EXACT

BINARY = dict(type='BiRealConv2d')


def silent(block: BinaryBottleneck) -> BinaryBottleneck:
    """Leave only the shortcuts: the norm after each convolution gives zero."""
    for norm in (block.bn1, block.bn2, block.bn3):
        nn.init.zeros_(norm.weight)
    return block.eval()


def test_every_convolution_of_an_inner_block_has_a_shortcut():
    block = silent(BinaryBottleneck(BinaryBiRealBlock, 16, 4, conv_cfg=BINARY))
    narrow, wide = torch.randn(2, 4, 5, 6), torch.randn(2, 16, 5, 6)
    out_narrow, out_wide = block((narrow, wide))
    assert torch.equal(out_narrow, narrow) and torch.equal(out_wide, wide)


def test_where_a_stage_begins_both_streams_are_widened_and_pooled():
    torch.manual_seed(0)
    block = silent(BinaryBottleneck(BinaryBiRealBlock, 16, 8, stride=2, begins=True, conv_cfg=BINARY).double())
    narrow, wide = (torch.randn(2, c, 6, 4, dtype=torch.float64) for c in (4, 16))
    out_narrow, out_wide = block((narrow, wide))
    expected = functional.avg_pool2d(functional.conv2d(narrow, block.widen.weight), 2)
    torch.testing.assert_close(out_narrow, expected, atol=FLOAT64_EXACT, rtol=0)
    expected = functional.conv2d(functional.avg_pool2d(wide, 2), block.downsample[0].weight) / (1 + 1e-5) ** 0.5
    torch.testing.assert_close(out_wide, expected, atol=FLOAT64_EXACT, rtol=0)


def test_first_block_starts_from_one_stream():
    torch.manual_seed(0)
    block = lively(BinaryBottleneck(BinaryHardtanhBlock, 4, 4, first=True, begins=True, conv_cfg=BINARY))
    assert type(block.conv1) is nn.Conv2d and isinstance(block.conv2, BinaryConv2d)
    x = 3 * torch.randn(2, 4, 5, 6)
    y = block.bn1(block.conv1(LeakyClip()(x))).clamp(-1, 1)
    y = (block.bn2(block.conv2(y)) + y).clamp(-1, 1)
    torch.testing.assert_close(block((torch.full_like(x, torch.nan), x))[0], y)


def test_keys_and_shapes_are_those_of_torchvision():
    with torch.device('meta'):
        theirs = {k: v.shape for k, v in torchvision.models.resnet50().state_dict().items() if not k.startswith('fc.')}
        ours = {k: v.shape for k, v in BinaryBottleneckResNet(50, conv_cfg=BINARY).state_dict().items()}
    assert ours.keys() - theirs.keys() == {f'layer{i}.0.widen.weight' for i in (2, 3, 4)}
    assert {k: ours[k] for k in theirs} == theirs


def test_what_is_real():
    with torch.device('meta'):
        net = BinaryBottleneckResNet(101, base_channels=8)
    convs = {name: m for name, m in net.named_modules() if isinstance(m, nn.Conv2d)}
    real = {name for name, m in convs.items() if not (isinstance(m, BinaryConv2d) and m.binary)}
    shortcuts = {f'layer{i}.0.downsample.0' for i in (1, 2, 3, 4)} | {f'layer{i}.0.widen' for i in (2, 3, 4)}
    assert real == {'conv1', 'layer1.0.conv1', *shortcuts}
    assert len(convs) - len(real) == 3 * 33 - 1


def test_shallower_resnets_are_elsewhere():
    with pytest.raises(ValueError, match=r'depth=34 is not available. Use one of \[50, 101, 152\], or BinaryResNet'):
        BinaryBottleneckResNet(34)
