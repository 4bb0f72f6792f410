# Binary: every 3x3 convolution of backbone, region proposal head and shared head.
# Real: stem, shortcuts, the 1x1 predictors of the proposal head, the two linear layers of the box head.
# A row also inherits a method and hands its layer to the three binary parts: conv_cfg=_base_.binary.
_base_ = './faster_rcnn_r18_c4.py'

pretrained = dict(type='Pretrained', checkpoint='torchvision://resnet18')
model = dict(
    backbone=dict(
        _delete_=True,
        type='BinaryResNet',
        depth=18,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        frozen_stages=0,
        init_cfg=pretrained,
    ),
    rpn_head=dict(type='rebnn_mm.BinaryRPNHead'),
    roi_head=dict(
        shared_head=dict(_delete_=True, type='BinaryResLayer', depth=18, stage=3, stride=2, init_cfg=pretrained)
    ),
)
