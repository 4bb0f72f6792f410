_base_ = [
    '../../_base_/models/resnet18_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_rbnn_1000e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/rbnn.py',
]

# RBNN's ResNet-18 with one shortcut for two convolutions: 92.2 % (RBNN's number). Its 1x1 shortcuts are binary.
model = dict(backbone=dict(block='single', stem_act=dict(type='Clamp'), conv_cfg=_base_.binary))
