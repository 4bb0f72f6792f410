_base_ = [
    '../../_base_/datasets/bccd_detection_320x240.py',
    '../../_base_/schedules/bccd_48e_adamw.py',
    'mmdet::_base_/default_runtime.py',
]

# mmdet's RTMDet-tiny, full-precision and from random weights, with the images, flips and schedule that the 1-bit
# family has on the blood cells: no mosaic, no change of sizes, no averaged weights.
norm_act = dict(norm_cfg=dict(type='BN'), act_cfg=dict(type='SiLU', inplace=True))
model = dict(
    type='RTMDet',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[103.53, 116.28, 123.675],
        std=[57.375, 57.12, 58.395],
        pad_size_divisor=32,
    ),
    backbone=dict(type='CSPNeXt', deepen_factor=0.167, widen_factor=0.375, channel_attention=True, **norm_act),
    neck=dict(type='CSPNeXtPAFPN', in_channels=[96, 192, 384], out_channels=96, num_csp_blocks=1, **norm_act),
    bbox_head=dict(
        type='RTMDetSepBNHead',
        num_classes=3,
        in_channels=96,
        feat_channels=96,
        stacked_convs=2,
        share_conv=True,
        exp_on_reg=False,
        with_objectness=False,
        pred_kernel_size=1,
        anchor_generator=dict(type='MlvlPointGenerator', offset=0, strides=[8, 16, 32]),
        bbox_coder=dict(type='DistancePointBBoxCoder'),
        loss_cls=dict(type='QualityFocalLoss', use_sigmoid=True, beta=2.0, loss_weight=1.0),
        loss_bbox=dict(type='GIoULoss', loss_weight=2.0),
        **norm_act,
    ),
    train_cfg=dict(assigner=dict(type='DynamicSoftLabelAssigner', topk=13), allowed_border=-1, pos_weight=-1),
    test_cfg=dict(
        nms_pre=1000, min_bbox_size=0, score_thr=0.01, max_per_img=100, nms=dict(type='nms', iou_threshold=0.65)
    ),
)
default_hooks = dict(checkpoint=dict(interval=8, max_keep_ckpts=1))
optim_wrapper = dict(paramwise_cfg=dict(bypass_duplicate=True))  # levels share convolutions
