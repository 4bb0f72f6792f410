# For a method (METHOD=xnor): configs/_base_/methods.
_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10_10k.py',
    '../../_base_/schedules/cifar10_cpu.py',
    '../../_base_/runtime/cifar10_cpu.py',
    '../../_base_/methods/{{$METHOD:rebnn}}.py',
]

work_dir = 'work_dirs/resnet20_{{$METHOD:rebnn}}_cifar10_cpu'
model = dict(backbone=dict(conv_cfg=_base_.binary))
