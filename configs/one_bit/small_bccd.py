_base_ = [
    '../_base_/models/one_bit.py',
    '../_base_/methods/rebnn.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_48e_adamw.py',
    'mmdet::_base_/default_runtime.py',
]

# The small 1-bit detector on the blood cells, from scratch.
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor', paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=4)))
)
default_hooks = dict(checkpoint=dict(interval=8, max_keep_ckpts=1))
model = dict(
    backbone=dict(conv_cfg=_base_.binary, channels=(64, 128, 256, 256), depths=(2, 8, 8, 4), stem_channels=(16,)),
    neck=dict(conv_cfg=_base_.binary, in_channels=[128, 256, 256], out_channels=128),
    bbox_head=dict(conv_cfg=_base_.binary, num_classes=3, in_channels=128, feat_channels=128, stacked_convs=3),
)
