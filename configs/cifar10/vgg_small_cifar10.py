_base_ = ['../_base_/models/vgg_small_cifar.py', '../_base_/cifar10_200e.py']

# Full-precision counterpart of the binary networks: the same structure with ReLU.
model = dict(backbone=dict(block='relu', conv_cfg=None))
