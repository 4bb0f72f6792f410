_base_ = [
    'mmdet::_base_/models/retinanet_r50_fpn.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_24e.py',
    'mmdet::_base_/default_runtime.py',
]

# Blood cells with one stage, from scratch; maps of strides 8 to 32.
# Full-precision counterpart of retinanet_r18_rebnn_bccd.py.
norm_cfg = dict(type='BN')
model = dict(
    backbone=dict(depth=18, out_indices=(1, 2, 3), frozen_stages=-1, norm_eval=False, init_cfg=None),
    neck=dict(_delete_=True, type='FPN', in_channels=[128, 256, 512], out_channels=128, num_outs=3, norm_cfg=norm_cfg),
    bbox_head=dict(
        num_classes=3,
        in_channels=128,
        feat_channels=128,
        norm_cfg=norm_cfg,
        # Platelets about 20 pixels wide, red cells 50, white cells 95; all nearly round.
        anchor_generator=dict(octave_base_scale=2, scales_per_octave=2, ratios=[0.8, 1.25], strides=[8, 16, 32]),
    ),
)
