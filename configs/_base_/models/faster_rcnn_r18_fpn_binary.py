# Binary: every 3x3 convolution of the backbone, laterals and outputs of the FPN, the proposal head's 3x3.
# Real: stem, shortcuts, predictors, and the two hidden linear layers of the box head.
# A row also inherits a method and hands its layer to backbone, neck and proposal head: conv_cfg=_base_.binary.
_base_ = './faster_rcnn_r18_fpn.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='BinaryResNet',
        depth=18,
        frozen_stages=0,
        init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet18'),
    ),
    neck=dict(norm_cfg=dict(type='BN')),
    rpn_head=dict(type='rebnn_mm.BinaryRPNHead'),
)
