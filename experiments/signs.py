# Latent weights at rates at which signs move, with the resilient gradient in several strengths; from scratch. The rate
# of a layer follows the mean magnitude of its weights (ReBNNOptimWrapperConstructor), times lr_mult.
_base_ = './_base_/cifar10_cpu.py'

title = 'Signs that move, CIFAR-10'
seeds = [0]
three = [0, 1, 2]
config = 'configs/cifar10/cpu/resnet20_rebnn_cifar10_cpu.py'
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
    dict(name='slower_none', label='a third of that rate, gamma 0', config=config, options={**slower, **none}),
    dict(name='fixed_none', label='as before, gamma 0', config=config, options={**fixed, **none}),
]
del config, conv, latent, fixed, moving, slower, none, printed, exact, share, three
