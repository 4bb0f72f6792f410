# Blood cells, 1-bit, from scratch: the same schedule and budget as the full-precision counterpart it inherits from.
_base_ = '../../bccd/faster_rcnn_r18_bccd.py'

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
# In the 1200 steps of this budget signs move at four times the rate; at that of all other weights most of them stay
# where their random start put them.
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor', paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=4)))
)
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
