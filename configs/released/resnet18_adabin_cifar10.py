_base_ = [
    '../_base_/models/resnet18_cifar.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/schedules/cifar10_200e.py',
    '../_base_/runtime/cifar10.py',
    '../_base_/methods/adabin.py',
]

# AdaBin's ResNet-18 for CIFAR-10, as released: strided shortcuts, Maxout, BN before the classifier.
model = dict(
    backbone=dict(
        block=dict(_delete_=True, type='adabin', downsample='strided'),
        stem_act=dict(type='Maxout', channels=64),
        conv_cfg=_base_.binary,
    ),
    neck=dict(_delete_=True, type='FlattenNeck', pool=True, norm_channels=512),
)
