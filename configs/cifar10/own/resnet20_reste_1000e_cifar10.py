_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_rbnn_1000e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/reste.py',
]

# ReSTE's ResNet-20 with one shortcut per convolution: 87.92 % (ReSTE's number). Its shortcuts have no parameters, its
# stem has ReLU and BN in the other order, and BN comes before its classifier. Length, batch
# and rate are RBNN's, too.
model = dict(backbone=dict(block='reste', stem_act=dict(type='ReLU'), conv_cfg=_base_.binary))
