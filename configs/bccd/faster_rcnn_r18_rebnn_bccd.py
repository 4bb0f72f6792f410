_base_ = './faster_rcnn_r18_bccd.py'

# Blood cells, 1-bit, from scratch: the same schedule and budget as the real-valued twin it inherits from.
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
custom_hooks = [dict(type='ReBNNHook')]
optim_wrapper = dict(
    constructor='ReBNNOptimWrapperConstructor', paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=4)))
)

binary = dict(type='ReBNNConv2d', gamma='adaptive', gamma_bounds=(1e-5, 2e-4))
model = dict(
    backbone=dict(
        _delete_=True,
        type='ReBNNResNet',
        depth=18,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        conv_cfg=binary,
    ),
    rpn_head=dict(type='rebnn_mm.BinaryRPNHead', conv_cfg=binary),
    roi_head=dict(shared_head=dict(_delete_=True, type='ReBNNResLayer', depth=18, stage=3, stride=2, conv_cfg=binary)),
)
