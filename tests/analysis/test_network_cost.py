"""Whole networks: every family of configs, regions of a second stage, and what depends on values."""

from pathlib import Path

import pytest
import torch
from mmengine.analysis import FlopAnalyzer
from mmengine.config import Config
from mmengine.hub import get_config
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from lab.study.plan import read_chosen
from rebnn_mm.analysis.config_network import build_network, input_shape
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.layers.report import layer_rows

CONFIGS = Path(__file__).parents[2] / 'configs'

# One config of each family, and the precisions it multiplies in.
FAMILIES = {
    'coco/faster_rcnn_r18_rebnn_coco': {'W32A32', 'W1A1'},
    'coco/faster_rcnn_r18_dorefa44_coco': {'W32A32', 'W4A4'},
    'coco/faster_rcnn_r18_fpn_rebnn_coco': {'W32A32', 'W1A1'},
    'bccd/faster_rcnn_r18_rebnn_bccd': {'W32A32', 'W1A1'},
    'voc/faster_rcnn_r18_bidet_voc': {'W32A32', 'W1A1'},
    'coco/ssd300_vgg16_bidet_coco': {'W32A32', 'W1A1'},
    'voc/ssd300_vgg16_voc': {'W32A32'},
    'pretrain/vgg16_rebnn_imagenet': {'W32A32', 'W1A1'},
    'imagenet/resnet18_react_stage1_imagenet': {'W32A32', 'W32A1'},
    'cifar10/resnet20_two_stage': {'W32A32', 'W1A1'},
    'METHOD=recu cifar10/vgg_small': {'W32A32', 'W1A1'},
    'METHOD=rbnn cifar10/resnet20': {'W32A32', 'W1A1'},
    'METHOD=fda cifar10/resnet20': {'W32A32', 'W1A1'},
    'cifar10/reference/resnet20_adabin_cifar10': {'W32A32', 'W1A1'},
    'cifar10/own/resnet20_dorefa_w4a32_200e_cifar10': {'W32A32', 'W4A32'},
}


def built(name):
    cfg = read_chosen(f'{name}.py', CONFIGS)
    return cfg, build_network(cfg)


# Their layers are those of another family, too.
ALIKE = ('coco/faster_rcnn_r18_dorefa44_coco', 'bccd/faster_rcnn_r18_rebnn_bccd', 'pretrain/vgg16_rebnn_imagenet')


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in FAMILIES]
)
def test_family(name, recwarn):
    cfg, model = built(name)
    cost = network_cost(model, input_shape(cfg)[:2])
    assert not [warning for warning in recwarn if 'computed for real' in str(warning.message)]
    assert set(cost.macs_by_precision()) == FAMILIES[name]
    rows = {row.name: row for row in layer_rows(model)}
    products = {layer.name: layer for layer in cost.layers if layer.weights}
    assert products.keys() == rows.keys()
    assert all(products[n].weight_bits == row.weight_bits and products[n].why == row.why for n, row in rows.items())
    assert all(layer.macs and layer.calls for layer in products.values())
    assert sum(layer.parameters for layer in cost.layers) == sum(p.numel() for p in model.parameters())
    state = model.state_dict().values()
    assert cost.checkpoint_bytes == sum(value.numel() * value.element_size() for value in state)
    assert cost.rois == (model.test_cfg.rpn.max_per_img if hasattr(model, 'roi_head') else None)


def test_a_second_stage_by_hand():
    """C4: stage 4 halves 7x7 regions to 4x4 and two linear layers follow; nothing else knows of regions."""
    _, model = built('coco/faster_rcnn_r18_coco')
    first = [network_cost(model, (64, 96), rois) for rois in (1, 11)]
    per_region = 16 * (512 * 256 * 9 + 3 * 512 * 512 * 9 + 512 * 256) + 512 * 81 + 512 * 4
    assert first[1].macs - first[0].macs == 10 * per_region
    last = {layer.name: layer for layer in first[1].layers}['roi_head.bbox_head.fc_reg']
    assert last.output == (11, 4)


def test_regions_on_a_pyramid_and_a_mask_head():
    """With FPN, two linear layers see 7x7 regions; mmdet's forward shows the mask head the first 100 of them."""
    model = build_network(Config(dict(model=mask_rcnn(), default_scope='mmdet')))
    few, many = (network_cost(model, (64, 64), rois) for rois in (100, 200))
    assert many.macs - few.macs == 100 * (256 * 49 * 1024 + 1024 * 1024 + 1024 * (81 + 320))
    masks = {layer.name: layer for layer in many.layers}['roi_head.mask_head.conv_logits']
    assert masks.output == (100, 80, 28, 28)
    # The proposal head sees five levels of 16, 8, 4, 2 and 1 pixels.
    proposals = {layer.name: layer for layer in many.layers}['rpn_head.rpn_conv']
    assert proposals.calls == 5
    assert proposals.macs == 256 * 256 * 9 * (16**2 + 8**2 + 4**2 + 2**2 + 1)


def mask_rcnn():
    return get_config('mmdet::mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py').model


def test_an_error_without_a_text_has_the_network_computed_for_real():
    class Shy(nn.Conv2d):
        def forward(self, x):
            if isinstance(x, FakeTensor):
                raise NotImplementedError
            return super().forward(x)

    with pytest.warns(UserWarning, match=r'computed for real \(NotImplementedError: NotImplementedError\)'):
        cost = network_cost(Shy(3, 4, 1), (5, 5))
    assert cost.macs == 3 * 4 * 25


def test_learned_regions_are_as_many_as_were_learned():
    cfg = get_config('mmdet::sparse_rcnn/sparse-rcnn_r50_fpn_1x_coco.py')
    cfg.model.backbone.update(depth=18)
    cfg.model.neck.in_channels = [64, 128, 256, 512]
    cfg.model.roi_head.update(num_stages=1, stage_loss_weights=[1], bbox_head=cfg.model.roi_head.bbox_head[:1])
    model = build_network(cfg)
    with pytest.warns(UserWarning, match='was computed for real'):
        cost = network_cost(model, (64, 64))
    assert cost.rois == 100
    assert {layer.name: layer for layer in cost.layers}['roi_head.bbox_head.0.fc_cls'].output == (100, 80)
    with pytest.raises(ValueError, match='SparseRCNN has learned its 100 regions; leave rois=5 out'):
        network_cost(model, (64, 64), 5)


def test_the_teacher_does_not_count():
    _, taught = built('imagenet/resnet18_rebnn_two_stage_imagenet')
    assert taught.teacher is not None
    cost = network_cost(taught, (224, 224))
    assert cost.macs == 1814073344  # ResNet-18 alone; the ResNet-34 that teaches has 3663761408
    assert not [layer.name for layer in cost.layers if 'teacher' in layer.name]


@pytest.mark.parametrize(
    'name', ['imagenet/resnet18_rebnn_imagenet', 'overfit/ssd300_vgg16_rebnn_overfit', 'imagenet/resnet18_imagenet']
)
def test_mmengine_counts_the_same_multiplications_at_any_precision(name):
    """Its tool knows no bits: it charges a 1-bit product like one of two real numbers, and adds norms and pooling."""
    _, model = built(name)
    side = 300 if 'ssd' in name else 64
    cost = network_cost(model, (side, side))
    operators = FlopAnalyzer(model.eval(), torch.zeros(1, 3, side, side))
    operators.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    found = operators.by_operator()
    assert found['conv'] + found.get('linear', 0) == cost.macs
    assert found['batch_norm'] == 2 * sum(layer.values_out for layer in cost.layers if layer.norm)


def test_mmengine_counts_rbnns_rotations_too():
    _, model = built('METHOD=rbnn cifar10/resnet20')
    operators = FlopAnalyzer(model.eval(), torch.zeros(1, 3, 32, 32))
    operators.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    found = operators.by_operator()
    assert found['conv'] + found['linear'] == network_cost(model, (32, 32)).macs
    assert found['matmul'] > found['conv'] / 10


def test_an_operator_without_shapes_is_computed():
    ops = pytest.importorskip('mmcv.ops')
    model = nn.Sequential(nn.Conv2d(3, 4, 1), ops.ModulatedDeformConv2dPack(4, 4, 3, padding=1, deform_groups=1))
    with pytest.warns(UserWarning, match='was computed for real'):
        cost = network_cost(model, (6, 6))
    assert cost.macs == (12 + 4 * 4 * 9 + 27 * 4 * 9) * 36


def test_the_model_stays_as_it_was():
    _, model = built('cifar10/resnet20')
    model.train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    network_cost(model, (32, 32))
    assert model.training and not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_a_grey_image_has_one_channel():
    preprocessor = dict(type='ClsDataPreprocessor', mean=[33.46], std=[78.87], num_classes=10)
    model = dict(type='ImageClassifier', head=dict(type='ClsHead'))
    model.update(backbone=dict(type='LeNet5', num_classes=10), data_preprocessor=preprocessor)
    cost = network_cost(build_network(Config(dict(model=model, default_scope='mmpretrain'))), (32, 32))
    assert cost.layers[0].macs == 6 * 25 * 28 * 28


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(shape=(0, 32)), 'must be a height and a width above 0'),
        (dict(shape=(32, 32), rois=5), 'ImageClassifier has no second stage, so rois=5 has no use'),
    ],
)
def test_bad_input_is_one_sentence(options, message):
    _, model = built('cifar10/resnet20')
    with pytest.raises(ValueError, match=message):
        network_cost(model, **options)


def test_regions_below_one_are_refused():
    _, model = built('coco/faster_rcnn_r18_coco')
    with pytest.raises(ValueError, match='rois=0 must be above 0'):
        network_cost(model, (64, 64), 0)
    model.test_cfg = None
    with pytest.raises(ValueError, match='test_cfg.rpn.max_per_img does not say on how many regions. Give rois'):
        network_cost(model, (64, 64))
