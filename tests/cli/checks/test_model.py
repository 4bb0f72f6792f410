import pytest
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

from rebnn_mm.cli.checks.model import check_model
from tests.refusal import refusal

BINARY = dict(type='ReBNNConv2d')


def stock(base, tmp_path, model='dict()'):
    pytest.importorskip('mmdet' if base.startswith('mmdet') else 'mmpretrain')
    (tmp_path / 'own.py').write_text(f"_base_ = '{base}'\nbinary = {BINARY}\nmodel = {model}\n")
    return Config.fromfile(tmp_path / 'own.py')


@pytest.mark.parametrize(
    ('base', 'model', 'start', 'instead'),
    [
        (
            'mmdet::ssd/ssd300_coco.py',
            'dict(backbone=dict(conv_cfg=binary))',
            'model.backbone: SSDVGG takes no conv_cfg',
            "or use backbone=dict(_delete_=True, type='BinarySSDVGG', conv_cfg=...).",
        ),
        (
            'mmdet::swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco.py',
            'dict(backbone=dict(conv_cfg=binary))',
            'model.backbone: SwinTransformer takes no conv_cfg',
            "such as backbone=dict(_delete_=True, type='BinaryResNet', depth=18, conv_cfg=...).",
        ),
        (
            'mmpretrain::convnext/convnext-tiny_32xb128_in1k.py',
            'dict(backbone=dict(conv_cfg=binary))',
            'model.backbone: ConvNeXt takes no conv_cfg',
            "type='BinaryResNet'",
        ),
        (
            'mmdet::faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py',
            'dict(backbone=dict(conv_cfg=binary), rpn_head=dict(conv_cfg=binary))',
            'model.rpn_head: RPNHead takes no conv_cfg',
            "or use rpn_head=dict(type='rebnn_mm.BinaryRPNHead', conv_cfg=...).",
        ),
        (
            'mmdet::retinanet/retinanet_r18_fpn_1x_coco.py',
            'dict(conv_cfg=binary)',
            'model: RetinaNet takes no conv_cfg',
            'Leave model.conv_cfg out.',
        ),
    ],
    ids=lambda value: value.split('/')[0] if '::' in value else '',
)
def test_conv_cfg_where_there_is_none(base, model, start, instead, tmp_path):
    cfg = stock(base, tmp_path, model)
    sentence = refusal(check_model, cfg)
    assert sentence.startswith(start) and instead in sentence
    with DefaultScope.overwrite_default_scope(cfg.default_scope), pytest.raises(TypeError, match='conv_cfg'):
        MODELS.build(cfg.model)


def test_head_of_mmdet_that_cannot_predict(tmp_path):
    cfg = stock('mmdet::ssd/ssd300_coco.py', tmp_path, 'dict(neck=dict(conv_cfg=binary))')
    assert refusal(check_model, cfg) == (
        "model.bbox_head: mmdet's SSDHead trains, but validation, testing and inference end in an AttributeError (it "
        "has no loss_cls). Set model.bbox_head.type='rebnn_mm.FixedSSDHead', the same head with that attribute."
    )
    cfg.merge_from_dict({'model.bbox_head.type': 'rebnn_mm.FixedSSDHead'})
    assert refusal(check_model, cfg) is None


@pytest.mark.parametrize(
    ('base', 'model'),
    [
        ('mmdet::retinanet/retinanet_r18_fpn_1x_coco.py', '{part: dict(conv_cfg=binary) for part in PARTS}'),
        # Of these the constructor has no conv_cfg of its own, but hands it on.
        ('mmdet::mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py', "dict(backbone=dict(type='ResNeXt', conv_cfg=binary))"),
        ('mmpretrain::resnet/resnetv1d50_8xb32_in1k.py', 'dict(backbone=dict(conv_cfg=binary))'),
        ('mmdet::cascade_rcnn/cascade-rcnn_r50_fpn_1x_coco.py', 'dict(neck=dict(conv_cfg=binary))'),
    ],
)
def test_what_takes_it_is_fit(base, model, tmp_path):
    assert (
        refusal(check_model, stock(base, tmp_path, model.replace('PARTS', "('backbone', 'neck', 'bbox_head')")))
        is None
    )


def test_names_that_are_not_registered_are_left_to_the_build():
    assert refusal(check_model, dict(model=dict(type='Nowhere', conv_cfg=BINARY))) is None
    assert refusal(check_model, {}) is None
