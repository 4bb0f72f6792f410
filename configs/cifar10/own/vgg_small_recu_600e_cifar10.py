_base_ = [
    '../../_base_/models/vgg_small_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_recu_600e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/recu.py',
]

# ReCU's VGG-small: 92.2 % (ReCU's number).
model = dict(backbone=dict(conv_cfg=_base_.binary))
