_base_ = [
    '../../_base_/datasets/bccd_detection_320x240.py',
    '../../_base_/schedules/bccd_48e_adamw.py',
    'mmdet::_base_/default_runtime.py',
]

# mmdet's SSDLite on MobileNetV2, full-precision and from random weights, with the images, flips and schedule that the
# 1-bit family has on the blood cells. The maps with strides 16 to 128 of its six, and anchors as large as the cells.
norm = dict(type='BN', eps=0.001, momentum=0.03)
spread = dict(type='TruncNormal', layer='Conv2d', std=0.03)
channels = (96, 1280, 512, 256)
model = dict(
    type='SingleStageDetector',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_size_divisor=32,
    ),
    backbone=dict(type='MobileNetV2', out_indices=(4, 7), norm_cfg=norm, init_cfg=spread),
    neck=dict(
        type='SSDNeck',
        in_channels=channels[:2],
        out_channels=channels,
        level_strides=(2, 2),
        level_paddings=(1, 1),
        l2_norm_scale=None,
        use_depthwise=True,
        norm_cfg=norm,
        act_cfg=dict(type='ReLU6'),
        init_cfg=spread,
    ),
    bbox_head=dict(
        type='rebnn_mm.FixedSSDHead',
        in_channels=channels,
        num_classes=3,
        use_depthwise=True,
        norm_cfg=norm,
        act_cfg=dict(type='ReLU6'),
        init_cfg=dict(type='Normal', layer='Conv2d', std=0.001),
        anchor_generator=dict(
            type='SSDAnchorGenerator',
            scale_major=False,
            strides=[16, 32, 64, 128],
            ratios=[[2], [2], [2], [2]],
            min_sizes=[20, 45, 75, 110],
            max_sizes=[45, 75, 110, 150],
        ),
        bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_stds=[0.1, 0.1, 0.2, 0.2]),
    ),
    train_cfg=dict(
        assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.5, neg_iou_thr=0.5, min_pos_iou=0, gt_max_assign_all=False),
        sampler=dict(type='PseudoSampler'),
        smoothl1_beta=1.0,
        allowed_border=-1,
        pos_weight=-1,
        neg_pos_ratio=3,
    ),
    test_cfg=dict(nms_pre=1000, score_thr=0.02, max_per_img=100, nms=dict(type='nms', iou_threshold=0.45)),
)
default_hooks = dict(checkpoint=dict(interval=8, max_keep_ckpts=1))
