_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_recu_600e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/ovsw.py',
]

# OvSW's recipe is ReCU's with its own two rules, in ReCU's network.
model = dict(backbone=dict(block='hardtanh', stem_act=dict(type='Clamp'), conv_cfg=_base_.binary))
