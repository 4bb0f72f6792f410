_base_ = [
    '../../_base_/models/resnet20_single_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_rbnn_1000e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/rbnn.py',
]

# RBNN's ResNet-20 with one shortcut for two convolutions: 86.5 % (RBNN's number). Its shortcuts have no parameters.
model = dict(backbone=dict(conv_cfg=_base_.binary))
