_base_ = ['./retinanet_r18_bccd.py', '../_base_/methods/rebnn.py']

# Blood cells with one stage: backbone and towers 1-bit with a shortcut for every convolution, FPN real.
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor', paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=4)))
)
model = dict(
    backbone=dict(
        _delete_=True, type='BinaryResNet', depth=18, block='react', out_indices=(1, 2, 3), conv_cfg=_base_.binary
    ),
    bbox_head=dict(type='rebnn_mm.BinaryTowers', head='RetinaHead', conv_cfg=_base_.binary),
)
