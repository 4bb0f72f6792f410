import pytest
import torch
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from rebnn_mm.layers import BinaryConv2d

mmdet = pytest.importorskip('mmdet')

from rebnn_mm.models.detection import BinaryRPNHead  # noqa: E402  (needs mmdet)


def build(**options) -> BinaryRPNHead:
    anchors = dict(type='AnchorGenerator', scales=[4, 8], ratios=[0.5, 1.0, 2.0], strides=[16])
    cfg = dict(type='rebnn_mm.BinaryRPNHead', in_channels=8, feat_channels=12, anchor_generator=anchors)
    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build({**cfg, **options})


def test_scoped_name_finds_it_from_mmdet():
    assert type(build()) is BinaryRPNHead


def test_hidden_layer_is_binary_and_predictors_are_real():
    head = build()
    (hidden,) = (m for m in head.rpn_conv.modules() if isinstance(m, nn.Conv2d))
    assert isinstance(hidden, BinaryConv2d)
    assert hidden.binary
    assert (hidden.in_channels, hidden.out_channels, hidden.kernel_size, hidden.bias) == (8, 12, (3, 3), None)
    assert type(head.rpn_cls) is nn.Conv2d
    assert type(head.rpn_reg) is nn.Conv2d


def test_norm_and_nothing_else_follows_the_convolution():
    head = build()
    with torch.no_grad():
        head.rpn_cls.weight.zero_()
        head.rpn_cls.weight[0, 3] = 1.0
        head.rpn_cls.bias.zero_()
    score, _ = head.forward_single(torch.randn(4, 8, 16, 16))
    channel = score[:, 0]
    # Batch normalised, and not cut at zero as it would be behind a ReLU.
    assert channel.mean().abs() < 1e-5
    assert channel.var(correction=0).item() == pytest.approx(1.0, abs=1e-2)


def test_conv_cfg_and_norm_cfg_reach_the_layer():
    head = build(conv_cfg=dict(type='ReBNNConv2d', gamma=3e-5), norm_cfg=dict(type='GN', num_groups=4))
    assert head.rpn_conv[0].conv.weight_quantizer.gamma_mode == 3e-5
    assert isinstance(head.rpn_conv[0].norm, nn.GroupNorm)
    assert type(build(conv_cfg=None).rpn_conv[0].conv) is nn.Conv2d


def test_num_convs_stacks_hidden_layers():
    head = build(num_convs=3)
    assert [(m.conv.in_channels, m.conv.out_channels) for m in head.rpn_conv] == [(8, 12), (12, 12), (12, 12)]
    assert all(m.conv.binary for m in head.rpn_conv)


def test_initialisation_of_predictors_is_that_of_mmdet():
    head = build(feat_channels=256)
    head.init_weights()
    assert head.rpn_cls.weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert head.rpn_conv[0].conv.weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.1)


@pytest.mark.parametrize('strides', [[16], [4, 8, 16]])
def test_scores_and_boxes_of_every_level(strides):
    head = build(anchor_generator=dict(type='AnchorGenerator', scales=[8], ratios=[0.5, 1.0, 2.0], strides=strides))
    levels = tuple(torch.randn(2, 8, 64 // s, 48 // s) for s in strides)
    scores, boxes = head(levels)
    assert [tuple(s.shape) for s in scores] == [(2, 3, 64 // s, 48 // s) for s in strides]
    assert [tuple(b.shape) for b in boxes] == [(2, 12, 64 // s, 48 // s) for s in strides]
