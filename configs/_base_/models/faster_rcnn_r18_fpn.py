_base_ = 'mmdet::_base_/models/faster-rcnn_r50_fpn.py'

model = dict(
    backbone=dict(depth=18, frozen_stages=0, init_cfg=dict(checkpoint='torchvision://resnet18')),
    neck=dict(in_channels=[64, 128, 256, 512]),
)
