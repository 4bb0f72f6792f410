_base_ = [
    '../_base_/models/resnet20_cifar_released.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/schedules/cifar10_200e.py',
    '../_base_/runtime/cifar10.py',
    '../_base_/methods/irnet.py',
]

# IR-Net's ResNet-20: 86.5 % (the authors' number). They released the network and no weights.
model = dict(backbone=dict(conv_cfg=_base_.binary))
