# ReBNN as this project trains it: latent weights at a rate that turns signs, and a weight decay that keeps them moving
# (docs/rebnn_options.md); images are one tensor on the device. Its score: run full_sgd of lab/reports/results.md.
_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10_resident.py',
    'mmpretrain::_base_/default_runtime.py',
    '../../_base_/methods/rebnn.py',
]

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
model = dict(backbone=dict(conv_cfg=_base_.binary))
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor',
    optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4),
    paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=True, lr_mult=10))),
)
max_epochs = 100
param_scheduler = dict(type='LinearLR', start_factor=1, end_factor=0, end=max_epochs, convert_to_iter_based=True)
train_cfg = dict(by_epoch=True, max_epochs=max_epochs, val_interval=5)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=128)
default_hooks = dict(checkpoint=dict(interval=5, max_keep_ckpts=2))
