_base_ = [
    '../../_base_/models/vgg_small_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_rbnn_1000e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/rbnn.py',
]

# RBNN's VGG-small: 91.3 % (RBNN's number).
model = dict(backbone=dict(conv_cfg=_base_.binary))
