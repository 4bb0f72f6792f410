# Blood cells, 1-bit, from scratch.
# A row also inherits a method and hands its layer to the three binary parts: conv_cfg=_base_.binary.
_base_ = './faster_rcnn_r18_bccd.py'

model = dict(
    backbone=dict(
        _delete_=True,
        type='BinaryResNet',
        depth=18,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
    ),
    rpn_head=dict(type='rebnn_mm.BinaryRPNHead'),
    roi_head=dict(shared_head=dict(_delete_=True, type='BinaryResLayer', depth=18, stage=3, stride=2)),
)
