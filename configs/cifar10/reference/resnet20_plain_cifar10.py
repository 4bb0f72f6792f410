_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10.py',
    '../../_base_/schedules/cifar10_200e.py',
    '../../_base_/runtime/cifar10.py',
]

# The original full-precision ResNet-20 (He et al. 2016): ReLU, one shortcut for two convolutions, no parameters in it.
# akamaster/pytorch_resnet_cifar10 publishes weights with 91.73 % (that project's number);
# lab/tools/import_released.py makes them fit.
model = dict(backbone=dict(block='plain_cifar', stem_act=dict(type='ReLU'), conv_cfg=None))
