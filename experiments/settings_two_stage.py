# The settings of settings.py that might pay where the paper reports its gain: in the second of two stages, with a
# teacher. First stage and gamma 0 are the runs of gamma.py.
_base_ = './_base_/cifar10_cpu.py'

title = 'What the paper leaves open, two stages'
folder = 'configs/cifar10/cpu'
conv = 'model.backbone.conv_cfg'
stage2 = dict(config=f'{folder}/resnet20_rebnn_two_stage_cifar10_cpu.py', start='stage1')
growth = [dict(type='ReBNNGammaGrowthHook', power=2.0)]
released = {f'{conv}.gamma_bounds': (2e-7, 4e-6)}
runs = [
    dict(name='stage1', label='first stage', config=f'{folder}/resnet20_react_stage1_cifar10_cpu.py', table=False),
    dict(name='gamma_0', label='gamma 0', options={f'{conv}.gamma': 0}, **stage2),
    dict(name='gamma_adaptive', label='as printed', options={f'{conv}.gamma': 'adaptive'}, **stage2),
    dict(name='two_epoch', label='flips per epoch', options={f'{conv}.flip_window': 'epoch'}, **stage2),
    dict(name='two_released_bounds', label='bounds in released units, 2e-7 and 4e-6', options=released, **stage2),
    dict(
        name='two_released_epoch',
        label='the same with flips per epoch',
        options={**released, f'{conv}.flip_window': 'epoch'},
        **stage2,
    ),
    dict(name='two_gamma_4e-6', label='gamma 4e-6', options={f'{conv}.gamma': 4e-6}, **stage2),
    dict(name='two_gamma_2e-5', label='gamma 2e-5', options={f'{conv}.gamma': 2e-5}, **stage2),
    dict(
        name='two_growing_2e-5',
        label='gamma that grows from 0 to 2e-5, quadratically',
        options={f'{conv}.gamma': 2e-5},
        hooks=growth,
        **stage2,
    ),
    dict(
        name='two_growing_2e-4',
        label='gamma that grows from 0 to 2e-4, quadratically',
        options={f'{conv}.gamma': 2e-4},
        hooks=growth,
        **stage2,
    ),
]
del folder, conv, stage2, growth, released
