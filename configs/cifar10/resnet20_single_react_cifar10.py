_base_ = [
    '../_base_/models/resnet20_single_cifar.py',
    '../_base_/cifar10_moving_200e.py',
    '../_base_/methods/react.py',
]

model = dict(backbone=dict(conv_cfg=_base_.binary))
