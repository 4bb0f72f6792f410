# Data, schedule and runtime of every CIFAR-10 config: a fifth of the set, sized for two CPU cores.
_base_ = ['./datasets/cifar10_10k.py', './schedules/cifar10_cpu.py', 'mmpretrain::_base_/default_runtime.py']

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
default_hooks = dict(logger=dict(interval=40), checkpoint=dict(interval=10))
