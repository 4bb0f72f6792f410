# The settings of settings.py that might pay where the paper reports its gain, with a teacher: from random weights, one
# seed each. Gamma 0 and the printed rule are the runs of gamma_taught.py.
_base_ = './_base_/cifar10_cpu.py'

title = 'What the paper leaves open, with a teacher'
seeds = [0]
conv = 'model.backbone.conv_cfg'
taught = dict(config='METHOD=rebnn configs/cifar10/cpu/resnet20_two_stage.py')
shared = dict(seeds=[0, 1, 2], **taught)
runs = [
    dict(name='gamma_0', id='gamma_taught.gamma_0', label='gamma 0', options={f'{conv}.gamma': 0}, **shared),
    dict(
        name='gamma_adaptive',
        id='gamma_taught.gamma_adaptive',
        label='as printed',
        options={f'{conv}.gamma': 'adaptive'},
        **shared,
    ),
    dict(name='taught_no_bounds', label='no bounds', options={f'{conv}.gamma_bounds': None}, **taught),
    dict(name='taught_official', label="variant='official'", options={f'{conv}.variant': 'official'}, **taught),
    dict(
        name='taught_growing_2e-5',
        label='gamma that grows from 0 to 2e-5, quadratically',
        options={f'{conv}.gamma': 2e-5},
        hooks=[dict(type='ReBNNGammaGrowthHook', power=2.0)],
        **taught,
    ),
]
del conv, taught, shared
