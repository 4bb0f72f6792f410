# Stage 2 of two: a method (METHOD=react) from the weights of the first stage.
_base_ = [
    '../_base_/models/resnet20_cifar_taught.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/schedules/cifar10_two_stage_200e.py',
    '../_base_/runtime/cifar10.py',
    '../_base_/methods/{{$METHOD:rebnn}}.py',
]

work_dir = 'work_dirs/resnet20_{{$METHOD:rebnn}}_two_stage_cifar10'
model = dict(backbone=dict(conv_cfg=_base_.binary))
load_from = 'work_dirs/resnet20_react_stage1_cifar10/epoch_200.pth'
