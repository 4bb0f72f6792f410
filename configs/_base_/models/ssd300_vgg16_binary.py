# SSD300 after BiDet: VGG-16 with BN, strided convolutions in place of pooling and a shortcut per convolution, and
# extra layers with BN and no activation. BiDet's strided convolutions widen; here the next one does, so that VGG-16's
# weights fit.
# Binary: conv1_2 to conv6 of the backbone, every extra layer. Real: conv1_1, conv7, shortcuts, the 3x3 predictors.
# A row also inherits a method and hands its layer to backbone and neck: conv_cfg=_base_.binary.
_base_ = 'mmdet::_base_/models/ssd300.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='BinarySSDVGG',
        # Full-precision VGG-16 with SSD's conv6 and conv7; the stride-2 convolutions, which it has not, start at
        # random. The papers start from a binary classifier: see pretrain/vgg16_rebnn_imagenet.py.
        init_cfg=dict(type='Pretrained', checkpoint='open-mmlab://vgg16_caffe'),
    ),
    neck=dict(norm_cfg=dict(type='BN'), act_cfg=None),
    # Stock but for a defect of mmdet that keeps it from predicting.
    bbox_head=dict(type='rebnn_mm.FixedSSDHead'),
)
