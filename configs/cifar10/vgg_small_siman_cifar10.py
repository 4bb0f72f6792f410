_base_ = ['../_base_/models/vgg_small_cifar.py', '../_base_/cifar10_200e.py', '../_base_/methods/siman.py']

model = dict(backbone=dict(conv_cfg=_base_.binary))
