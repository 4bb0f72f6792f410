# For a method (METHOD=xnor): configs/_base_/methods.
_base_ = [
    '../_base_/models/resnet20_cifar.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/schedules/cifar10_moving_200e.py',
    '../_base_/runtime/cifar10.py',
]

work_dir = 'work_dirs/resnet20_{{$METHOD:rebnn}}_cifar10'
model = dict(backbone=dict(conv_cfg=_base_.binary))
