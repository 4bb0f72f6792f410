"""BiDet's detection configs: structure, a training step without and with its losses, prediction, schedule."""

from pathlib import Path

import pytest
import torch

pytest.importorskip('mmdet')

from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmdet.utils import register_all_modules
from mmengine.structures import InstanceData

from rebnn_mm.methods import BiDetConv2d
from rebnn_mm.models.losses import BiDetLoss

from .ssd import build_without_memory

register_all_modules(init_default_scope=False)

CONFIGS = Path(__file__).parents[2] / 'configs'
NAMES = sorted(
    path.relative_to(CONFIGS).with_suffix('').as_posix()
    for pattern in ('coco/*_bidet_coco.py', 'voc/*_bidet_voc.py', 'released/*_bidet_voc.py')
    for path in CONFIGS.glob(pattern)
)
FASTER_RCNN = [name for name in NAMES if 'faster_rcnn' in name]
SSD = [name for name in NAMES if 'ssd300' in name]
LOSSES = {
    'faster_rcnn': {'loss_rpn_information', 'loss_rpn_prior', 'loss_information', 'loss_prior'},
    'ssd300': {'loss_information', 'loss_prior'},
}


def added_losses(name):
    return next(losses for network, losses in LOSSES.items() if network in name)


@pytest.fixture
def small(load_config):
    """Load a config at less cost: an eighth of its channels, and fewer regions."""

    def load(name):
        cfg = load_config(name)
        if name in FASTER_RCNN:
            cfg.merge_from_dict(
                {
                    'model.train_cfg.rcnn.sampler.num': 32,
                    'model.test_cfg.rpn.max_per_img': 20,
                    'model.backbone.base_channels': 8,
                    'model.rpn_head.in_channels': 32,
                    'model.rpn_head.feat_channels': 32,
                    'model.roi_head.shared_head.base_channels': 8,
                    'model.roi_head.bbox_roi_extractor.out_channels': 32,
                    'model.roi_head.bbox_head.in_channels': 64,
                }
            )
        else:
            channels = (64, 128, 64, 32, 32, 32)
            cfg.merge_from_dict(
                {
                    'model.backbone.base_channels': 8,
                    'model.neck.in_channels': channels[:2],
                    'model.neck.out_channels': channels,
                    'model.bbox_head.in_channels': channels,
                    'model.test_cfg.nms_pre': 1000,
                    'model.test_cfg.max_per_img': 200,
                }
            )
        return cfg

    return load


@pytest.fixture
def batch(detection_batch):
    """The usual two images, or two of SSD's size."""

    def for_config(name):
        if name not in SSD:
            return detection_batch
        shape = (300, 300)
        sample = DetDataSample(
            metainfo=dict(img_shape=shape, ori_shape=shape, pad_shape=shape, scale_factor=(1.0, 1.0))
        )
        boxes = torch.tensor([[20.0, 30.0, 150.0, 200.0], [140.0, 100.0, 280.0, 260.0]])
        sample.gt_instances = InstanceData(bboxes=boxes, labels=torch.tensor([0, 5]))
        sample.ignored_instances = InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
        images = torch.randint(0, 256, (2, 3, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        return dict(inputs=list(images), data_samples=[sample, sample])

    return for_config


def test_every_row_has_its_config():
    assert NAMES == [
        'coco/faster_rcnn_r18_bidet_coco',
        'coco/ssd300_vgg16_bidet_coco',
        'released/ssd300_vgg16_bidet_voc',
        'voc/faster_rcnn_r18_bidet_voc',
        'voc/ssd300_vgg16_bidet_voc',
    ]


@pytest.mark.parametrize('name', NAMES)
def test_a_step_without_and_with_the_losses_and_a_repeatable_prediction(name, small, batch):
    torch.manual_seed(0)
    model = MODELS.build(small(name).model)
    model.init_weights()
    # Which of SSD's extra layers learn from two images depends on the sizes of the objects.
    binary = [
        m for n, m in model.named_modules() if isinstance(m, BiDetConv2d) and m.binary and not n.startswith('neck')
    ]
    for active in (False, True):
        for head in (m for m in model.modules() if isinstance(m, BiDetLoss)):
            assert head.active is False
            head.active = active
        data = model.data_preprocessor(batch(name), training=True)
        losses = model(**data, mode='loss')
        assert losses.keys() & added_losses(name) == (added_losses(name) if active else set())
        total, _ = model.parse_losses(losses)
        model.zero_grad()
        total.backward()
        assert total.isfinite()
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        assert all(p.grad is not None and p.grad.isfinite().all() for p in trained.values())
        assert all(m.weight.grad.abs().sum() > 0 for m in binary)
    assert all(losses[added] > 0 for added in added_losses(name))

    model.eval()
    getattr(model, 'roi_head', model.bbox_head if name in SSD else None).test_cfg.score_thr = 0.0
    with torch.no_grad():
        first, second = model.test_step(batch(name)), model.test_step(batch(name))
    for one, other in zip(first, second, strict=True):
        assert len(one.pred_instances.bboxes) > 0 and one.pred_instances.bboxes.isfinite().all()
        assert torch.equal(one.pred_instances.bboxes, other.pred_instances.bboxes)


@pytest.mark.parametrize('name', NAMES)
def test_every_binary_layer_is_bidets_and_pads_with_minus_one(name, small):
    model = build_without_memory(small(name))
    binary = {n: m for n, m in model.named_modules() if getattr(m, 'weight_quantizer', None) is not None}
    # Faster R-CNN: 16 of the ResNet, 1 of the proposals. SSD: 17 and conv6, 8 of the neck, less the real conv1_1.
    assert len(binary) == (17 if name in FASTER_RCNN else 25)
    for layer_name, layer in binary.items():
        assert type(layer) is BiDetConv2d and layer.pad_value == -1, layer_name
        assert type(layer.activation_quantizer).__name__ == 'BinaryApproxSign', layer_name


@pytest.mark.parametrize('name', FASTER_RCNN)
def test_faster_rcnn_predicts_eight_values_per_box_and_has_bidets_weights(name, load_config):
    model = build_without_memory(load_config(name))
    assert model.rpn_head.rpn_reg.out_channels == 8 * model.rpn_head.num_base_priors
    assert model.roi_head.bbox_head.fc_reg.out_features == 8
    assert model.rpn_head.sample_sigma == model.roi_head.bbox_head.sample_sigma == 0.001
    assert (model.rpn_head.bottleneck.regularisation, model.rpn_head.bottleneck.prior) == (0.5, 0.01)
    assert (model.roi_head.bottleneck.regularisation, model.roi_head.bottleneck.prior) == (0.02, 0.05)


@pytest.mark.parametrize('name', SSD)
def test_ssd_predicts_eight_values_per_box_and_has_bidets_weights(name, load_config):
    head = build_without_memory(load_config(name)).bbox_head
    outputs = [branch[-1].out_channels for branch in head.reg_convs]
    assert outputs == [8 * anchors for anchors in (4, 6, 6, 6, 4, 4)]
    assert head.sample_sigma == 0.0
    assert (head.bottleneck.regularisation, head.bottleneck.prior) == (0.1, 0.2)


@pytest.mark.parametrize('name', NAMES)
def test_classes_and_data_set(name, load_config):
    cfg = load_config(name)
    head = cfg.model.roi_head.bbox_head if name in FASTER_RCNN else cfg.model.bbox_head
    voc = name.endswith('_voc')
    assert head.num_classes == (20 if voc else 80)
    assert cfg.val_evaluator.type == ('VOCMetric' if voc else 'CocoMetric')


@pytest.mark.parametrize('name', NAMES)
def test_schedule_of_bidet(name, load_config):
    cfg = load_config(name)
    assert cfg.train_dataloader.batch_size == 32
    assert cfg.optim_wrapper.optimizer.to_dict() == dict(type='Adam', lr=1e-3)
    assert cfg.optim_wrapper.constructor == 'BinaryOptimWrapperConstructor'
    assert [hook.to_dict() for hook in cfg.custom_hooks] == [{'type': 'BinaryHook'}, {'type': 'BiDetLossHook'}]
    assert cfg.custom_imports.imports == ['rebnn_mm']
    (steps,) = (schedule for schedule in cfg.param_scheduler if schedule.type == 'MultiStepLR')
    assert steps.gamma == 0.1
    if name in FASTER_RCNN:
        assert (cfg.train_cfg.max_epochs, steps.milestones) == (12, [6, 10])
    elif name == 'coco/ssd300_vgg16_bidet_coco':
        assert (cfg.train_cfg.max_iters, steps.milestones) == (400000, [40000, 80000, 200000])
    else:
        assert (cfg.train_cfg.max_iters, steps.milestones) == (300000, [30000, 80000, 200000])
