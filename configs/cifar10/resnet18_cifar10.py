_base_ = ['../_base_/models/resnet18_cifar.py', '../_base_/cifar10_200e.py']

# Full-precision counterpart of the binary networks: the same structure with ReLU.
model = dict(backbone=dict(block='relu', stem_act=dict(type='ReLU'), conv_cfg=None))
