# Full-precision counterpart of the binary network: the same structure with ReLU.
_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10_10k.py',
    '../../_base_/schedules/cifar10_cpu.py',
    '../../_base_/runtime/cifar10_cpu.py',
]

work_dir = 'work_dirs/resnet20_real_cifar10_cpu'
model = dict(backbone=dict(block='relu', stem_act=dict(type='ReLU'), conv_cfg=None))
