# The settings of settings.py that might pay where the paper reports its gain: in the second of two stages, with a
# teacher, one seed each. First stage, gamma 0 and the printed rule are the runs of gamma.py.
_base_ = './_base_/cifar10_cpu.py'

title = 'What the paper leaves open, two stages'
seeds = [0]
folder = 'configs/cifar10/cpu'
first = f'{folder}/resnet20_react_stage1_cifar10_cpu.py'
conv = 'model.backbone.conv_cfg'
stage2 = dict(config=f'{folder}/resnet20_rebnn_two_stage_cifar10_cpu.py', start='stage1')
shared = dict(seeds=[0, 1, 2], **stage2)
runs = [
    dict(name='stage1', label='first stage', config=first, seeds=[0, 1, 2], table=False),
    dict(name='gamma_0', label='gamma 0', options={f'{conv}.gamma': 0}, **shared),
    dict(name='gamma_adaptive', label='as printed', options={f'{conv}.gamma': 'adaptive'}, **shared),
    dict(name='two_no_bounds', label='no bounds', options={f'{conv}.gamma_bounds': None}, **stage2),
    dict(name='two_official', label="variant='official'", options={f'{conv}.variant': 'official'}, **stage2),
    dict(
        name='two_growing_2e-5',
        label='gamma that grows from 0 to 2e-5, quadratically',
        options={f'{conv}.gamma': 2e-5},
        hooks=[dict(type='ReBNNGammaGrowthHook', power=2.0)],
        **stage2,
    ),
]
del folder, first, conv, stage2, shared
