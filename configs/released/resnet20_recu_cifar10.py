_base_ = [
    '../_base_/models/resnet20_cifar_released.py',
    '../_base_/datasets/cifar10_bs256.py',
    '../_base_/schedules/cifar10_recu_600e.py',
    '../_base_/runtime/cifar10.py',
    '../_base_/methods/recu.py',
]

# ReCU's released ResNet-20: 87.4 to 87.5 % (the authors' numbers, paper and repository).
model = dict(backbone=dict(block=dict(downsample='pooled_padded'), conv_cfg=_base_.binary))
