_base_ = './yolox_nano_bccd.py'

# mmdet's YOLOX-tiny: 1.5 times the channels of YOLOX-nano, whole convolutions in place of depthwise ones.
model = dict(
    backbone=dict(widen_factor=0.375, use_depthwise=False),
    neck=dict(in_channels=[96, 192, 384], out_channels=96, use_depthwise=False),
    bbox_head=dict(in_channels=96, feat_channels=96, use_depthwise=False),
)
