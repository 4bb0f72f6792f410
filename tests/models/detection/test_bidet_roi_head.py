import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope
from mmengine.structures import InstanceData

pytest.importorskip('mmdet')

from rebnn_mm.models.detection import BiDetRoIHead
from rebnn_mm.models.detection.bidet import keep_scores
from rebnn_mm.models.losses.bidet_loss import sparse_object_prior
from tests.models.detection.bidet_samples import samples

SUPPRESSION = dict(score_thr=0.01, iou_threshold=0.5)


def build(agnostic=True, num=64, **options):
    torch.manual_seed(0)
    train = dict(
        assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.5, min_pos_iou=0.5),
        sampler=dict(type='RandomSampler', num=num, pos_fraction=0.5),
        pos_weight=-1,
    )
    extractor = dict(
        type='SingleRoIExtractor',
        roi_layer=dict(type='RoIAlign', output_size=4, sampling_ratio=0),
        out_channels=8,
        featmap_strides=[8],
    )
    head = dict(
        type='rebnn_mm.BiDetBBoxHead',
        in_channels=8,
        roi_feat_size=4,
        num_classes=3,
        with_avg_pool=True,
        reg_class_agnostic=agnostic,
        sample_sigma=0.0,
    )
    cfg = dict(type='rebnn_mm.BiDetRoIHead', bbox_roi_extractor=extractor, bbox_head=head, train_cfg=ConfigDict(train))
    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build({**cfg, 'suppression': SUPPRESSION, **options})


def inputs(images=2):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(images, 8, 8, 8, generator=generator).requires_grad_()
    corners = torch.rand(images, 20, 2, generator=generator) * 40
    boxes = torch.cat([corners, corners + 8 + torch.rand(images, 20, 2, generator=generator) * 14], dim=2)
    return (x,), [InstanceData(bboxes=each, scores=torch.ones(20)) for each in boxes]


def test_switched_off_it_is_the_standard_head():
    head = build()
    assert isinstance(head, BiDetRoIHead)
    assert set(head.loss(*inputs(), samples([0, 1, 1], [2]))) == {'loss_cls', 'acc', 'loss_bbox'}


@pytest.mark.parametrize('agnostic', [True, False])
def test_losses_are_the_definitions(agnostic):
    head = build(agnostic, bottleneck=dict(regularisation=0.25, prior=0.125))
    head.bottleneck.active = True
    x, regions = inputs()
    batch = samples([0, 1, 1], [2])
    # With room for every region the sampler keeps them all: the objects' own boxes and the twenty.
    pooled, kept = [], []
    for i, sample in enumerate(batch):
        rois = torch.cat([sample.gt_instances.bboxes, regions[i].bboxes])
        rois_of_image = torch.cat([torch.full((len(rois), 1), float(i)), rois], dim=1)
        vector = head.bbox_roi_extractor(x, rois_of_image).mean(dim=(2, 3))
        deltas = head.bbox_head.fc_reg(vector)[:, : 4 if agnostic else 12]
        boxes = head.bbox_head.bbox_coder.decode(rois, deltas, max_shape=(64, 64))
        boxes = boxes if agnostic else boxes.view(-1, 3, 4)
        scores = head.bbox_head.fc_cls(vector).softmax(dim=1)
        kept += keep_scores(boxes, scores, sample.gt_instances.labels, **SUPPRESSION)
        pooled.append(vector)
    assert sum(len(found) > count for found, count in kept) == 3, 'every class should claim too many objects'

    losses = head.loss(x, regions, batch)
    expected = 0.25 * torch.cat(pooled).square().mean()
    assert losses['loss_information'].item() == pytest.approx(expected.item(), rel=1e-5)
    assert losses['loss_prior'].item() == pytest.approx(0.125 * sparse_object_prior(kept).item(), rel=1e-5)


def test_objects_that_the_sampler_leaves_out_count():
    """Two regions, one of them positive, stand for three objects of one class: there is nothing to drop."""
    head = build(num=2)
    head.bottleneck.active = True
    assert head.loss(*inputs(1), samples([1, 1, 1]))['loss_prior'].item() == 0.0
    assert head.loss(*inputs(1), samples([1]))['loss_prior'].item() > 0.0


@pytest.mark.parametrize('name', ['loss_information', 'loss_prior'])
def test_gradient_reaches_the_image_features(name):
    head = build()
    head.bottleneck.active = True
    x, regions = inputs()
    head.loss(x, regions, samples([0, 1], [2]))[name].backward()
    assert x[0].grad.abs().sum() > 0
    assert (head.bbox_head.fc_cls.weight.grad is not None) == (name == 'loss_prior')
    assert head.bbox_head.fc_reg.weight.grad is None


def test_images_without_objects_have_no_prior():
    head = build()
    head.bottleneck.active = True
    losses = head.loss(*inputs(), samples([], []))
    assert losses['loss_prior'].item() == 0.0 and losses['loss_information'].isfinite()
