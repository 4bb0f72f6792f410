"""Detectors as small as they can be, with a teacher, and images with objects."""

from copy import deepcopy

import torch
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.registry import DefaultScope
from mmengine.runner import save_checkpoint
from mmengine.structures import InstanceData
from torch import nn

CLASSES = 3
BINARY = dict(type='ReBNNConv2d')
IMAGES = dict(type='DetDataPreprocessor', mean=[120.0, 110.0, 100.0], std=[60.0, 60.0, 60.0], bgr_to_rgb=True)
ASSIGNER = dict(type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.5, min_pos_iou=0.3)


def backbone(conv_cfg, width, stages):
    return dict(
        type='BinaryResNet',
        depth=18,
        base_channels=width,
        num_stages=stages,
        strides=(1, 2, 2)[:stages],
        dilations=(1,) * stages,
        out_indices=(stages - 1,),
        conv_cfg=conv_cfg,
    )


def c4(conv_cfg=BINARY, width=4, classes=CLASSES, **rpn):
    """A Faster R-CNN as in configs/bccd, as small as it can be."""
    sampler = dict(type='RandomSampler', num=16, pos_fraction=0.5, neg_pos_ub=-1)
    return dict(
        type='FasterRCNN',
        data_preprocessor=IMAGES,
        backbone=backbone(conv_cfg, width, 2),
        rpn_head=dict(
            type='rebnn_mm.BinaryRPNHead',
            conv_cfg=conv_cfg,
            in_channels=2 * width,
            feat_channels=2 * width,
            anchor_generator=dict(type='AnchorGenerator', scales=[2, 4], ratios=[1.0], strides=[8]),
            **rpn,
        ),
        roi_head=dict(
            type='StandardRoIHead',
            shared_head=dict(
                type='BinaryResLayer', depth=18, stage=2, base_channels=width, stride=2, conv_cfg=conv_cfg
            ),
            bbox_roi_extractor=dict(
                type='SingleRoIExtractor',
                roi_layer=dict(type='RoIAlign', output_size=5, sampling_ratio=0),
                out_channels=2 * width,
                featmap_strides=[8],
            ),
            bbox_head=dict(
                type='BBoxHead',
                with_avg_pool=True,
                in_channels=4 * width,
                roi_feat_size=3,
                num_classes=classes,
                reg_class_agnostic=True,
            ),
        ),
        train_cfg=dict(
            rpn=dict(
                assigner=dict(ASSIGNER, pos_iou_thr=0.7, neg_iou_thr=0.3),
                sampler=dict(sampler, add_gt_as_proposals=False),
                allowed_border=-1,
                pos_weight=-1,
                debug=False,
            ),
            rpn_proposal=dict(nms_pre=50, max_per_img=20, nms=dict(type='nms', iou_threshold=0.7), min_bbox_size=0),
            rcnn=dict(assigner=ASSIGNER, sampler=dict(sampler, add_gt_as_proposals=True), pos_weight=-1, debug=False),
        ),
        test_cfg=dict(
            rpn=dict(nms_pre=50, max_per_img=20, nms=dict(type='nms', iou_threshold=0.7), min_bbox_size=0),
            rcnn=dict(score_thr=0.0, nms=dict(type='nms', iou_threshold=0.5), max_per_img=10),
        ),
    )


def retina(conv_cfg=BINARY, width=4, classes=CLASSES):
    """A one-stage detector with sigmoids."""
    return dict(
        type='RetinaNet',
        data_preprocessor=IMAGES,
        backbone=backbone(conv_cfg, width, 2),
        neck=dict(type='FPN', in_channels=[2 * width], out_channels=8, num_outs=2),
        bbox_head=dict(
            type='RetinaHead',
            num_classes=classes,
            in_channels=8,
            feat_channels=8,
            stacked_convs=1,
            conv_cfg=conv_cfg,
            norm_cfg=dict(type='BN'),
            anchor_generator=dict(type='AnchorGenerator', scales=[4], ratios=[1.0], strides=[8, 16]),
        ),
        train_cfg=dict(assigner=ASSIGNER, sampler=dict(type='PseudoSampler'), allowed_border=-1, pos_weight=-1),
        test_cfg=dict(
            nms_pre=50, min_bbox_size=0, score_thr=0.0, nms=dict(type='nms', iou_threshold=0.5), max_per_img=9
        ),
    )


def fcos(conv_cfg=BINARY, width=4):
    """A one-stage detector without anchors, whose boxes in eval mode are in other units."""
    cfg = retina(conv_cfg, width)
    cfg['type'] = 'FCOS'
    cfg['bbox_head'] = dict(
        type='FCOSHead',
        num_classes=CLASSES,
        in_channels=8,
        feat_channels=8,
        stacked_convs=1,
        strides=[8, 16],
        regress_ranges=((-1, 32), (32, 1e8)),
        norm_on_bbox=True,
        norm_cfg=dict(type='BN'),
        conv_cfg=conv_cfg,
    )
    return cfg


def ssd(conv_cfg=BINARY, width=4):
    """A one-stage detector with a softmax, whose scores have a class for the background."""
    cfg = retina(conv_cfg, width)
    cfg.update(type='SingleStageDetector')
    cfg['neck']['num_outs'] = 1
    cfg['bbox_head'] = dict(
        type='rebnn_mm.FixedSSDHead',
        num_classes=CLASSES,
        in_channels=(8,),
        anchor_generator=dict(
            type='SSDAnchorGenerator', scale_major=False, strides=[8], ratios=[[2]], min_sizes=[16], max_sizes=[32]
        ),
    )
    cfg['train_cfg'].update(smoothl1_beta=1.0, neg_pos_ratio=3, debug=False)
    return cfg


TWO_STAGE = [
    dict(type='DKDLoss'),
    dict(type='ObjectnessLoss'),
    dict(type='RegionBoxLoss'),
    dict(type='PKDLoss', modules=['backbone', 'roi_head.shared_head']),
    dict(type='RegionDiscrepancyLoss', modules=['backbone']),
]
LAYERWISE = [dict(type='LayerwiseLoss', parts=['backbone.layer2', 'roi_head'])]
ONE_STAGE = [dict(type='DenseScoreLoss'), dict(type='DenseBoxLoss'), dict(type='ObjectFeatureLoss', modules=['neck'])]


def built(cfg):
    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build(Config(deepcopy(cfg))._cfg_dict)


def save_teacher(cfg, path):
    """A checkpoint of a teacher that was trained, with statistics of its own."""
    torch.manual_seed(7)
    model = built(cfg)
    model.init_weights()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    save_checkpoint(dict(state_dict=model.state_dict()), str(path))
    return path


def taught(teacher_file, student=None, teacher=None, **options):
    """The config of a student, by default of the two-stage detector."""
    student, teacher = student or c4(), teacher or c4(None)
    arguments = dict(teacher=teacher, teacher_checkpoint=str(teacher_file), losses=TWO_STAGE)
    kind = dict(type='rebnn_mm.TeacherStudentDetector', student=student['type'])
    return {**student, **kind, **arguments, **options}


def sample(index=0, size=(64, 64)):
    generator = torch.Generator().manual_seed(index)
    image = torch.randint(0, 256, (3, *size), generator=generator, dtype=torch.uint8)
    objects = InstanceData(bboxes=torch.tensor([[4.0, 4, 36, 36], [30, 20, 50, 60]]), labels=torch.tensor([0, 2]))
    sizes = dict(img_shape=size, ori_shape=size, pad_shape=size, scale_factor=(1.0, 1.0), img_id=index)
    return dict(inputs=image, data_samples=DetDataSample(metainfo=sizes, gt_instances=objects))


def losses_of(model, indices=(0, 1), size=(64, 64), **forward):
    torch.manual_seed(1)  # for the samplers
    batch = model.data_preprocessor(pseudo_collate([sample(index, size) for index in indices]), training=True)
    return model(**batch, mode='loss', **forward)


def total(model, **options):
    return model.parse_losses(losses_of(model, **options))[0]
