# Binary: every 3x3 convolution of the backbone, laterals and outputs of the FPN, the proposal head's 3x3.
# Real: stem, shortcuts, predictors, and the two hidden linear layers of the box head.
_base_ = './faster_rcnn_r18_fpn.py'

binary = dict(type='ReBNNConv2d')
model = dict(
    backbone=dict(
        _delete_=True,
        type='ReBNNResNet',
        depth=18,
        frozen_stages=0,
        conv_cfg=binary,
        init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet18'),
    ),
    neck=dict(conv_cfg=binary, norm_cfg=dict(type='BN')),
    rpn_head=dict(type='rebnn_mm.BinaryRPNHead', conv_cfg=binary),
)
