# Data, schedule and runtime of every CIFAR-10 config: the whole set.
_base_ = ['./datasets/cifar10.py', './schedules/cifar10_200e.py', 'mmpretrain::_base_/default_runtime.py']

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
default_hooks = dict(checkpoint=dict(interval=10, max_keep_ckpts=2))
