# ResNet-20 for CIFAR with the ordinary block: one shortcut for two convolutions, and Hardtanh where ReLU would be.
_base_ = './resnet20_cifar.py'

model = dict(backbone=dict(block='single', stem_act=dict(type='Clamp')))  # mmcv's Clamp is Hardtanh
