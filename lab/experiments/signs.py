# Latent weights at rates at which signs move, with the resilient gradient in several strengths; from scratch. The rate
# of a layer follows the mean magnitude of its weights (BinaryOptimWrapperConstructor), times lr_mult.
_base_ = './_base_/cifar10_cpu.py'

title = 'Signs that move, CIFAR-10'
seeds = [0]
three = [0, 1, 2]
config = 'METHOD=rebnn configs/cifar10/cpu/resnet20.py'
conv = 'model.backbone.conv_cfg'
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
fixed = {f'{latent}.relative': False}
moving = {f'{latent}.relative': True, f'{latent}.lr_mult': 1}
slower = {f'{latent}.relative': True, f'{latent}.lr_mult': 0.3}
none = {f'{conv}.gamma': 0}
printed = {f'{conv}.gamma_bounds': (1e-5, 2e-4), f'{conv}.max_share': 0.1}
exact = {f'{conv}.gamma_bounds': (2e-7, 4e-6), f'{conv}.max_share': 0.1}
share = {f'{conv}.gamma_bounds': (1e-5, 2e-4), f'{conv}.max_share': 0.01}
runs = [
    dict(name='moving_none', label='moving, gamma 0', config=config, options={**moving, **none}, seeds=three),
    dict(name='moving_printed', label='moving, bounds 1e-5 and 2e-4', config=config, options={**moving, **printed}),
    dict(name='moving_exact', label='moving, bounds 2e-7 and 4e-6', config=config, options={**moving, **exact}),
    dict(
        name='moving_share',
        label='moving, printed, at most 1 %',
        config=config,
        options={**moving, **share},
        seeds=three,
    ),
    # Two forms that measure oscillation over many steps, chosen before any run. Eq. 14 counts flips, of which 96 % are
    # signs on their way, so it holds back what has to move; and 0.3 % of the weights a step times a gradient of 1e-3
    # gives less than its lower bound. The first form counts what comes straight back, over 100 steps, which makes
    # the share about as large as Eq. 14 would need. The second asks each weight: one gamma for a channel cannot tell
    # what wavers from what moves. It holds such weights half as strongly as the task pulls, as 1 % did nothing.
    dict(
        name='moving_oscillation',
        label='moving, Eq. 14 by signs there and back in 100 steps, no bounds',
        config=config,
        options={**moving, f'{conv}.gamma': 1e-5},
        hooks=[dict(type='ReBNNOscillationHook', window=100)],
        seeds=three,
    ),
    dict(
        name='moving_hold',
        label='moving, only weights that went back and forth in 100 steps',
        config=config,
        options={**moving, **none},
        hooks=[dict(type='ReBNNHoldHook', window=100, share=0.5)],
        seeds=three,
    ),
    dict(name='slower_none', label='a third of that rate, gamma 0', config=config, options={**slower, **none}),
    dict(name='fixed_none', label='as before, gamma 0', config=config, options={**fixed, **none}),
]
del config, conv, latent, fixed, moving, slower, none, printed, exact, share, three
