# Full-precision counterpart of the binary networks: the same structure with ReLU.
_base_ = [
    '../_base_/models/resnet18_cifar.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/schedules/cifar10_200e.py',
    '../_base_/runtime/cifar10.py',
]

work_dir = 'work_dirs/resnet18_real_cifar10'
model = dict(backbone=dict(block='relu', stem_act=dict(type='ReLU'), conv_cfg=None))
