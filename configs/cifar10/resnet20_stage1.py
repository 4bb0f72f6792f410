# Stage 1 of two: ReActNet with real weights and binary inputs (W32A1).
_base_ = [
    '../_base_/models/resnet20_cifar_taught.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/schedules/cifar10_two_stage_200e.py',
    '../_base_/runtime/cifar10.py',
    '../_base_/methods/react.py',
]

work_dir = 'work_dirs/resnet20_react_stage1_cifar10'
model = dict(backbone=dict(conv_cfg=dict(_base_.binary, weight=None)))
