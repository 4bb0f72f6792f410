_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10.py',
    '../../_base_/schedules/cifar10_200e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/irnet.py',
]

# IR-Net's ResNet-20 with one shortcut per convolution: 86.5 % (IR-Net's number). Its shortcuts have no parameters.
model = dict(backbone=dict(block='hardtanh', stem_act=dict(type='Clamp'), conv_cfg=_base_.binary))
param_scheduler = [dict(type='CosineAnnealingLR', by_epoch=True, end=400, T_max=400, convert_to_iter_based=True)]
train_cfg = dict(max_epochs=400)
