import pytest
import torch
from torch import nn
from torch.nn import functional

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models.detection import OneBitNeck


def maps():
    torch.manual_seed(0)
    return [torch.randn(1, 8, 8, 6), torch.randn(1, 16, 4, 3)]


def test_adds_levels_down_and_up():
    neck = OneBitNeck([8, 16], 16).eval()
    fine, coarse = maps()
    top = neck.down[1](neck.laterals[1](coarse))
    bottom = neck.down[0](neck.laterals[0](fine) + functional.interpolate(top, scale_factor=2.0))
    again = neck.up[0](top + functional.avg_pool2d(bottom, 2))
    for ours, expected in zip(neck([fine, coarse]), (bottom, again), strict=True):
        torch.testing.assert_close(ours, expected)


def test_without_a_way_up():
    neck = OneBitNeck([8, 16], 16, bottom_up=False).eval()
    assert not len(neck.up) and [tuple(y.shape) for y in neck(maps())] == [(1, 16, 8, 6), (1, 16, 4, 3)]


def test_levels_that_are_not_halves_are_refused():
    neck = OneBitNeck([8, 16], 16)
    sentence = r'OneBitNeck: a level of \(9, 6\) is not twice the next, which would be \(10, 6\). Pad .*_divisor=32'
    with pytest.raises(ValueError, match=sentence):
        neck([torch.randn(1, 8, 9, 6), torch.randn(1, 16, 5, 3)])


@pytest.mark.parametrize('conv_cfg', [dict(type='ReBNNConv2d'), None])
def test_only_narrow_laterals_are_real(conv_cfg):
    neck = OneBitNeck([8, 16], 16, block='react' if conv_cfg else 'relu', conv_cfg=conv_cfg)
    convs = [layer for layer in neck.modules() if isinstance(layer, nn.Conv2d)]
    binary = [layer for layer in convs if isinstance(layer, BinaryConv2d) and layer.binary]
    assert len(convs) == 4 and len(binary) == (3 if conv_cfg else 0)
    assert isinstance(neck.laterals[1], nn.Identity)
