_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/cifar10_cpu.py',
    '../../_base_/methods/adabin.py',
]

model = dict(backbone=dict(conv_cfg=_base_.binary))
