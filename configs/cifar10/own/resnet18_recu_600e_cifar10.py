_base_ = [
    '../../_base_/models/resnet18_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_recu_600e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/recu.py',
]

# ReCU's ResNet-18 with one shortcut for two convolutions: 92.8 % (ReCU's number).
model = dict(backbone=dict(block='single', stem_act=dict(type='Clamp'), conv_cfg=_base_.binary))
