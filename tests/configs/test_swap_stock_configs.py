"""Configs of mmdet and mmpretrain, not ours, with only ``conv_cfg`` swapped and the method switched on."""

import re
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.hub import get_config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import nn

from rebnn_mm.engine import BinaryOptimWrapperConstructor, ResilientGradient
from rebnn_mm.engine.optim_constructor import apply_relative_rates
from rebnn_mm.layers import calibrate_shifts

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from .stock import Watch, binary_layers, separate, train_one_step

ROOT = Path(__file__).parents[2]
OF_THE_TABLES = ('BNN', 'XNOR', 'DoReFa', 'BiReal', 'RBNN', 'ReCU', 'ReAct', 'FDA', 'BiDet')
METHODS = [*OF_THE_TABLES, 'IRNet', 'ReSTE', 'OvSW', 'BiPer', 'SiMaN']

# Without the base's own hooks, which look into its data set.
HEADER = """
_base_ = '{base}'
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
custom_hooks = [dict(type='ReBNNHook')]
optim_wrapper = dict(constructor='BinaryOptimWrapperConstructor')
binary = {binary}
model = dict({places})
"""

CONV = "dict(type='ReBNNConv2d')"
BACKBONE, NECK, BOX_HEAD = (f'{place}=dict(conv_cfg=binary)' for place in ('backbone', 'neck', 'bbox_head'))
MASK_HEAD = 'roi_head=dict(mask_head=dict(conv_cfg=binary))'

# base config, conv_cfg, where it can be given, number of layers that become binary, and those that keep full precision
DETECTORS = [
    (
        'mmdet::faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py',
        CONV,
        [BACKBONE, NECK],
        48 + 8,
        r'backbone\.conv1|.*\.downsample\.0|rpn_head\..*',
    ),
    (
        'mmdet::mask_rcnn/mask-rcnn_r50_fpn_1x_coco.py',
        CONV,
        [BACKBONE, NECK, MASK_HEAD],
        48 + 8 + 4,
        r'backbone\.conv1|.*\.downsample\.0|rpn_head\..*|.*\.conv_logits',
    ),
    (
        'mmdet::retinanet/retinanet_r18_fpn_1x_coco.py',
        CONV,
        [BACKBONE, NECK, BOX_HEAD],
        16 + 8 + 8,
        r'backbone\.conv1|.*\.downsample\.0|bbox_head\.retina_(cls|reg)',
    ),
    (
        'mmdet::fcos/fcos_r50-caffe_fpn_gn-head_1x_coco.py',
        CONV,
        [BACKBONE, NECK, BOX_HEAD],
        48 + 8 + 8,
        r'backbone\.conv1|.*\.downsample\.0|bbox_head\.conv_(cls|reg|centerness)',
    ),
    (
        'mmdet::atss/atss_r50_fpn_1x_coco.py',
        CONV,
        [BACKBONE, NECK, BOX_HEAD],
        48 + 8 + 8,
        r'backbone\.conv1|.*\.downsample\.0|bbox_head\.atss_(cls|reg|centerness)',
    ),
    (
        'mmdet::yolox/yolox_tiny_8xb8-300e_coco.py',
        CONV,
        [BACKBONE, NECK, BOX_HEAD],
        None,
        r'backbone\.stem\..*|bbox_head\.multi_level_conv_(cls|reg|obj)\..*',
    ),
]


def swapped(base: str, binary: str, places: list[str], folder: Path) -> Config:
    (folder / 'swapped.py').write_text(HEADER.format(base=base, binary=binary, places=', '.join(places)))
    return Config.fromfile(folder / 'swapped.py')


def check(runner: Runner, watch: Watch, count: int | None, real: str) -> None:
    model = runner.model
    binary = binary_layers(model)
    assert count is None or len(binary) == count
    stay_real = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d) and n not in binary]
    assert stay_real
    assert [n for n in stay_real if not re.fullmatch(real, n)] == []
    assert [n for n in binary if re.fullmatch(real, n)] == []
    assert runner.message_hub.get_scalar('train/loss').current() < float('inf')
    trained = {n for n, m in binary.items() if m.weight.requires_grad}
    assert watch.gradient.keys() == trained
    without = {n: value for n, value in watch.gradient.items() if not 0 < value < float('inf')}
    # YOLOX learns classes only at the levels to which its random start happens to assign an object.
    assert {n: value for n, value in without.items() if value or 'multi_level_cls_convs' not in n} == {}
    assert not without or any('multi_level_cls_convs' in n for n in watch.gradient.keys() - without.keys())
    # After a ReLU a sign without a shift is +1 everywhere: nothing is above the mean.
    assert watch.above.keys() == binary.keys()
    assert {n: share for n, share in watch.above.items() if not 0.05 < share < 0.95} == {}


def detector(row):
    """Mask R-CNN holds the whole of Faster R-CNN; the heads of FCOS and ATSS have towers as RetinaNet's has."""
    name = row[0].split('/')[-1]
    return pytest.param(*row, id=name, marks=pytest.mark.slow if name.startswith(('faster', 'fcos', 'atss')) else ())


@pytest.mark.parametrize(('base', 'binary', 'places', 'count', 'real'), map(detector, DETECTORS))
def test_swapped_detector_learns(base, binary, places, count, real, detection_batch, tmp_path):
    cfg = swapped(base, binary, places, tmp_path)
    if 'roi_head' in cfg.model:
        cfg.merge_from_dict({'model.train_cfg.rcnn.sampler.num': 32})
    runner, watch = train_one_step(cfg, separate(detection_batch), tmp_path)
    check(runner, watch, count, real)


def test_towers_with_shortcuts_learn(detection_batch, tmp_path):
    base, binary, (*places, _), count, real = DETECTORS[2]
    towers = "bbox_head=dict(type='rebnn_mm.BinaryTowers', head=_base_.model.bbox_head.type, conv_cfg=binary)"
    cfg = swapped(base, binary, [*places, towers], tmp_path)
    runner, watch = train_one_step(cfg, separate(detection_batch), tmp_path)
    assert type(runner.model.bbox_head).__name__ == 'RetinaHead'
    check(runner, watch, count, real)


def test_without_calibration_layers_behind_a_relu_see_a_constant(detection_batch, tmp_path):
    """The control of the test above: the same check finds what it is there to find."""
    base, binary, places, *_ = DETECTORS[2]
    cfg = swapped(base, binary, places, tmp_path)
    cfg.custom_hooks[0].calibrate = False
    _, watch = train_one_step(cfg, separate(detection_batch), tmp_path)
    assert watch.above['backbone.layer1.0.conv2'] == 0.0


@pytest.mark.parametrize(
    'page', ['docs/add_a_method.md', 'docs/rebnn_options.md', 'docs/methods.md', 'docs/models.md']
)
@pytest.mark.parametrize(
    ('base', 'hooks'),
    [
        ('mmdet::rtmdet/rtmdet_tiny_8xb32-300e_coco.py', ['EMAHook', 'PipelineSwitchHook']),
        ('mmdet::retinanet/retinanet_r18_fpn_1x_coco.py', []),
    ],
)
def test_hooks_of_the_base_stay_where_ours_is_added_as_a_page_says(page, base, hooks, tmp_path):
    lines = re.findall(r'^custom_hooks = .*$', (ROOT / page).read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        (tmp_path / 'own.py').write_text(f"_base_ = '{base}'\n{line}\n")
        found = [hook.type for hook in Config.fromfile(tmp_path / 'own.py').custom_hooks]
        ours = re.findall(r"type='(\w+)'", line)
        assert ours and found == [*hooks, *ours]


THREE_LINES = """
_base_ = '{base}'
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
custom_hooks = [*_base_.get('custom_hooks', []), dict(type='BinaryHook')]
model = dict(backbone=dict(conv_cfg=dict(type='{method}Conv2d')))
"""


# A classifier, below, shows what the methods differ in; these two, that a detector takes the same lines.
IN_A_DETECTOR = ('XNOR', 'DoReFa')


@pytest.mark.parametrize(
    'method', [pytest.param(m, marks=() if m in IN_A_DETECTOR else pytest.mark.slow) for m in METHODS]
)
def test_three_lines_select_any_method_in_a_detector(method, detection_batch, tmp_path):
    base, *_ = DETECTORS[2]
    (tmp_path / 'three_lines.py').write_text(THREE_LINES.format(base=base, method=method))
    runner, watch = train_one_step(Config.fromfile(tmp_path / 'three_lines.py'), separate(detection_batch), tmp_path)
    assert {type(layer).__name__ for layer in binary_layers(runner.model).values()} == {f'{method}Conv2d'}
    check(runner, watch, 16, r'backbone\.conv1|.*\.downsample\.0|neck\..*|bbox_head\..*')


@pytest.mark.parametrize(
    'method', [pytest.param(m, marks=() if m in OF_THE_TABLES else pytest.mark.slow) for m in METHODS]
)
def test_three_lines_select_any_method_in_a_classifier(method, classification_samples, tmp_path):
    base = 'mmpretrain::resnet/resnet18_8xb32_in1k.py'
    (tmp_path / 'three_lines.py').write_text(THREE_LINES.format(base=base, method=method))
    cfg = Config.fromfile(tmp_path / 'three_lines.py')
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        runner, watch = train_one_step(cfg, classification_samples(64), tmp_path)
    assert {type(layer).__name__ for layer in binary_layers(runner.model).values()} == {f'{method}Conv2d'}
    check(runner, watch, 16, r'backbone\.conv1|.*\.downsample\.0')


@pytest.mark.parametrize(
    ('base', 'count', 'real'),
    [
        ('mmpretrain::resnet/resnet18_8xb32_in1k.py', 16, r'backbone\.conv1|.*\.downsample\.0'),
        ('mmpretrain::vgg/vgg11bn_8xb32_in1k.py', 7, r'backbone\.features\.0\.conv'),
    ],
)
def test_swapped_classifier_learns(base, count, real, classification_samples, tmp_path):
    cfg = swapped(base, CONV, [BACKBONE], tmp_path)
    samples = classification_samples(224 if 'vgg' in base else 64)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        runner, watch = train_one_step(cfg, samples, tmp_path)
    check(runner, watch, count, real)


def flips_of_stock_network(name, optimizer, steps, **conv):
    """Flips by layer, in shares of its weights, of a narrow stock network on images whose labels mean nothing."""
    from mmpretrain.registry import MODELS
    from mmpretrain.structures import DataSample

    with DefaultScope.overwrite_default_scope('mmpretrain'):
        config = get_config(f'mmpretrain::resnet/{name}.py').model
        config.backbone.update(base_channels=8, stem_channels=8, conv_cfg=dict(type='ReBNNConv2d', **conv))
        config.head.update(in_channels=config.head.in_channels // 8, num_classes=4, topk=(1,))
        torch.manual_seed(0)
        model = MODELS.build(config)
        model.init_weights()
        generator = torch.Generator().manual_seed(1)

        def images():
            return torch.randn(8, 3, 32, 32, generator=generator)

        calibrate_shifts(model, lambda: model(images()))
        wrapper = BinaryOptimWrapperConstructor(dict(optimizer=optimizer))(model)
        apply_relative_rates(wrapper.optimizer)
        resilient = ResilientGradient(model).attach(wrapper.optimizer)
        for _ in range(steps):
            labels = torch.randint(0, 4, (8,), generator=generator).tolist()
            samples = [DataSample().set_gt_label(label) for label in labels]
            wrapper.update_params(model.loss(images(), samples)['loss'])
    return {layer.name: layer.all_flips / layer.weights for layer in resilient.layers}


@pytest.mark.parametrize(
    ('name', 'optimizer', 'steps'),
    [
        ('resnet18_8xb32_in1k', dict(type='Adam', lr=1e-3), 40),
        pytest.param(
            'resnet18_8xb32_in1k',
            dict(type='AdamW', lr=1e-3, weight_decay=0.05),
            40,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            'resnet18_8xb32_in1k',
            dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4),
            60,
            marks=pytest.mark.slow,
        ),
        pytest.param('resnet50_8xb32_in1k', dict(type='Adam', lr=1e-3), 30, marks=pytest.mark.slow),
        pytest.param(
            'resnet50_8xb32_in1k',
            dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4),
            40,
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda value: value['type'] if isinstance(value, dict) else None,
)
def test_signs_of_stock_networks_move(name, optimizer, steps):
    """Their last norms start at zero, so that no binary layer has a task gradient in the first step."""
    flips, free = (flips_of_stock_network(name, optimizer, steps, **conv) for conv in ({}, {'gamma': 0}))
    assert all(flips.values()), {layer for layer, share in flips.items() if not share}
    assert sum(flips.values()) > 0.5 * sum(free.values())
