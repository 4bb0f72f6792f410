import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from rebnn_mm.layers import BinaryConv2d, RPReLU
from rebnn_mm.models import BinaryUnit

pytest.importorskip('mmdet')

from mmdet.models.dense_heads import ATSSHead, FCOSHead, RetinaHead, SSDHead

from rebnn_mm.models.detection import BinaryRPNHead, FixedSSDHead, build_binary_towers

SSD = dict(
    num_classes=3,
    in_channels=(8,),
    anchor_generator=dict(
        type='SSDAnchorGenerator', scale_major=False, strides=[8], ratios=[[2]], min_sizes=[16], max_sizes=[32]
    ),
    test_cfg=ConfigDict(
        nms_pre=100, nms=dict(type='nms', iou_threshold=0.45), score_thr=0.0, min_bbox_size=0, max_per_img=10
    ),
)


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
    # Batch normalised, and not cut at zero as it would be after a ReLU.
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


def predict(head):
    maps = (torch.linspace(-1, 1, 8 * 4 * 4).reshape(1, 8, 4, 4),)
    meta = dict(img_shape=(32, 32), ori_shape=(32, 32), scale_factor=(1.0, 1.0))
    return head.predict_by_feat(*head(maps), batch_img_metas=[meta], rescale=True)[0]


def test_prediction_of_ssd_gives_boxes_where_the_head_of_mmdet_fails():
    with DefaultScope.overwrite_default_scope('mmdet'):
        theirs = SSDHead(**SSD)
        ours = MODELS.build(dict(type='rebnn_mm.FixedSSDHead', **SSD))
    assert type(ours) is FixedSSDHead
    ours.load_state_dict(theirs.state_dict())
    result = predict(ours)
    assert len(result) == 10
    assert (result.bboxes >= 0).all()
    assert (result.bboxes <= 32).all()
    # If this stops failing, mmdet is repaired and this class has no purpose left.
    with pytest.raises(AttributeError, match='loss_cls'):
        predict(theirs)


@pytest.mark.parametrize(('channels', 'shortcut'), [(12, True), (8, False)])
def test_a_block_style_puts_a_shortcut_and_an_activation_around_the_convolution(channels, shortcut):
    head = build(in_channels=channels, block='react')
    unit = head.rpn_conv[0]
    assert isinstance(unit, BinaryUnit) and isinstance(unit.act, RPReLU) and isinstance(unit.conv, BinaryConv2d)
    assert isinstance(unit.downsample, nn.Identity) is shortcut
    x = torch.randn(2, channels, 5, 4)
    hidden = unit.act(unit.bn(unit.conv(x)) + unit.downsample(x))
    score, box = head.forward_single(x)
    torch.testing.assert_close(score, head.rpn_cls(hidden))
    torch.testing.assert_close(box, head.rpn_reg(hidden))


def test_with_a_block_style_the_head_without_one_fits_into_it():
    plain, styled = build(in_channels=12), build(in_channels=12, block='react')
    keys = styled.state_dict().keys()
    assert plain.state_dict().keys() < keys
    assert {key.split('.')[2] for key in keys - plain.state_dict().keys()} == {'act'}


TOWERS = {
    'RetinaHead': (
        RetinaHead,
        dict(anchor_generator=dict(type='AnchorGenerator', scales=[4], ratios=[0.5, 2.0], strides=[8, 16])),
        ('retina_cls', 'retina_reg'),
    ),
    'FCOSHead': (FCOSHead, dict(strides=[8, 16]), ('conv_cls', 'conv_reg', 'conv_centerness')),
    'ATSSHead': (
        ATSSHead,
        dict(anchor_generator=dict(type='AnchorGenerator', scales=[4], ratios=[1.0], strides=[8, 16])),
        ('atss_cls', 'atss_reg', 'atss_centerness'),
    ),
}


def towers(head: str, **options) -> nn.Module:
    # The norm that FCOS and ATSS have without ours would take multiples of 32 only.
    cfg = dict(num_classes=3, in_channels=24, feat_channels=24, stacked_convs=2, **TOWERS[head][1])
    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build(dict(type='rebnn_mm.BinaryTowers', head=head, **{**cfg, **options}))


@pytest.mark.parametrize('name', TOWERS)
def test_towers_are_binary_with_a_shortcut_each_and_predictors_real(name):
    head, (kind, _, predictors) = towers(name), TOWERS[name]
    assert type(head) is kind
    for tower in (head.cls_convs, head.reg_convs):
        assert [type(unit) for unit in tower] == [BinaryUnit] * 2
        assert all(unit.conv.binary and unit.shortcut and isinstance(unit.act, RPReLU) for unit in tower)
    assert all(type(head.get_submodule(predictor)) is nn.Conv2d for predictor in predictors)
    maps = head((torch.randn(2, 24, 8, 8), torch.randn(2, 24, 4, 4)))
    assert [level.shape[-1] for level in maps[0]] == [8, 4]


@pytest.mark.parametrize('shared', [True, False])
def test_towers_of_rtmdet_have_norms_per_level(shared):
    points = dict(type='MlvlPointGenerator', offset=0, strides=[8, 16])
    head = dict(type='rebnn_mm.BinaryTowers', head='RTMDetSepBNHead', share_conv=shared, anchor_generator=points)
    sizes = dict(num_classes=3, in_channels=24, feat_channels=24, stacked_convs=2, with_objectness=False)
    with DefaultScope.overwrite_default_scope('mmdet'):
        built = MODELS.build(dict(head, **sizes, bbox_coder=dict(type='DistancePointBBoxCoder')))
    fine, coarse = built.cls_convs
    assert all(type(unit) is BinaryUnit and unit.conv.binary for tower in (fine, coarse) for unit in tower)
    assert (fine[0].conv is coarse[0].conv) == shared and fine[0].bn is not coarse[0].bn
    assert fine[0].conv is not fine[1].conv


def test_features_reach_the_predictors_of_a_tower_and_not_only_counts():
    head = towers('RetinaHead').eval()
    for unit in head.cls_convs:
        unit.bn.weight.data.zero_()
    x = torch.rand(1, 24, 6, 6)
    features = x
    for unit in head.cls_convs:
        features = unit(features)
    torch.testing.assert_close(features, x)


def test_channels_of_the_neck_may_differ_and_options_reach_the_units():
    style = dict(in_channels=4, conv_cfg=dict(type='XNORConv2d'), norm_cfg=dict(type='GN', num_groups=2))
    head = towers('RetinaHead', block='bireal', **style)
    first, second = head.cls_convs
    assert (first.conv.in_channels, second.conv.in_channels) == (4, 24) and type(first.conv).__name__ == 'XNORConv2d'
    assert isinstance(second.bn, nn.GroupNorm) and not isinstance(second.act, RPReLU)
    (unit, _) = towers('RetinaHead', conv_cfg=None, block='relu', shortcut=False).cls_convs
    assert type(unit.conv) is nn.Conv2d and not unit.shortcut and isinstance(unit.act, nn.ReLU)


def test_towers_start_as_mmdet_starts_them():
    head = towers('RetinaHead', in_channels=256, feat_channels=256)
    head.init_weights()
    assert head.cls_convs[0].conv.weight.std().item() == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize(
    ('head', 'options'),
    [
        ('YOLOXHead', dict(in_channels=8, feat_channels=8, strides=[8, 16])),
        ('FCOSHead', dict(in_channels=8, strides=[8, 16], dcn_on_last_conv=True)),
    ],
)
def test_heads_without_plain_towers_are_refused(head, options):
    with (
        DefaultScope.overwrite_default_scope('mmdet'),
        pytest.raises(ValueError, match=f'BinaryTowers: {head} has no'),
    ):
        build_binary_towers(head, num_classes=3, **options)
