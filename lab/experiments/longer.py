# Does a longer training change what settings.py finds? Twice the epochs, otherwise the same.
_base_ = './_base_/cifar10_cpu.py'

title = 'Twenty epochs'
seeds = [0]
budget = {'train_cfg.max_epochs': 20, 'param_scheduler.end': 20}
config = 'METHOD=rebnn configs/cifar10/cpu/resnet20.py'
conv = 'model.backbone.conv_cfg'
runs = [
    dict(name='long_rebnn', label='as printed', config=config),
    dict(name='long_none', label='no resilient gradient, gamma 0', config=config, options={f'{conv}.gamma': 0}),
]
del config, conv
