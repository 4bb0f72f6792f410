_base_ = [
    '../../_base_/datasets/bccd_detection_320x240.py',
    '../../_base_/schedules/bccd_48e_adamw.py',
    'mmdet::_base_/default_runtime.py',
]

# mmdet's YOLOX-nano, full-precision, with the images, flips and schedule that the 1-bit family has on the blood cells:
# no mosaic, no change of sizes, no averaged weights.
norm_act = dict(norm_cfg=dict(type='BN', momentum=0.03, eps=0.001), act_cfg=dict(type='Swish'))
model = dict(
    type='YOLOX',
    data_preprocessor=dict(type='DetDataPreprocessor', pad_size_divisor=32),
    backbone=dict(type='CSPDarknet', deepen_factor=0.33, widen_factor=0.25, use_depthwise=True, **norm_act),
    neck=dict(
        type='YOLOXPAFPN',
        in_channels=[64, 128, 256],
        out_channels=64,
        num_csp_blocks=1,
        use_depthwise=True,
        **norm_act,
    ),
    bbox_head=dict(type='YOLOXHead', num_classes=3, in_channels=64, feat_channels=64, use_depthwise=True, **norm_act),
    train_cfg=dict(assigner=dict(type='SimOTAAssigner', center_radius=2.5)),
    test_cfg=dict(score_thr=0.01, max_per_img=100, nms=dict(type='nms', iou_threshold=0.65)),
)
default_hooks = dict(checkpoint=dict(interval=8, max_keep_ckpts=1))
