# Every setting of gamma with a full-precision teacher, from random weights.
_base_ = './_base_/cifar10_cpu.py'

title = 'The choice of gamma, one stage with a teacher'
taught = dict(config='METHOD=rebnn configs/cifar10/cpu/resnet20_two_stage.py')
gamma = 'model.backbone.conv_cfg.gamma'
runs = [
    dict(name='gamma_0', label='0', options={gamma: 0}, **taught),
    dict(name='gamma_1e-5', label='1e-5', options={gamma: 1e-5}, **taught),
    dict(name='gamma_1e-4', label='1e-4', options={gamma: 1e-4}, **taught),
    dict(name='gamma_1e-3', label='1e-3', options={gamma: 1e-3}, **taught),
    dict(name='gamma_1e-2', label='1e-2', options={gamma: 1e-2}, **taught),
    dict(name='gamma_max', label='max of the gradient alone', options={gamma: 'max'}, **taught),
    dict(name='gamma_adaptive', label='Eq. 14', options={gamma: 'adaptive'}, **taught),
]
del taught, gamma
