# ReBNN as this project trains it: weight decay keeps signs moving (docs/method.md), images lie on the device as one
# tensor. What it has reached: run full_adamw of docs/results.md.
_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10_resident.py',
    'mmpretrain::_base_/default_runtime.py',
    '../../_base_/methods/rebnn.py',
]

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
model = dict(backbone=dict(conv_cfg=_base_.binary))
optim_wrapper = dict(
    constructor='ReBNNOptimWrapperConstructor',
    optimizer=dict(type='AdamW', lr=3e-3, weight_decay=0.1),
)
max_epochs = 100
param_scheduler = dict(type='LinearLR', start_factor=1, end_factor=0, end=max_epochs, convert_to_iter_based=True)
train_cfg = dict(by_epoch=True, max_epochs=max_epochs, val_interval=5)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=128)
default_hooks = dict(checkpoint=dict(interval=5, max_keep_ckpts=2))
