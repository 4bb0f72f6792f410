# Methods that schedule, damp or freeze changes of signs, each by itself, on a fifth of CIFAR-10 over ten epochs:
# transition-rate scheduling at three targets under plain rates of SGD and AdamW, where signs hardly move; dampening,
# freezing and magnitudes drawn to 1 under rates at which they do.
_base_ = './_base_/cifar10_cpu.py'

title = 'CIFAR-10, scheduled signs'
optimizer = 'optim_wrapper.optimizer'
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
sgd = {
    'model.backbone.conv_cfg.gamma': 0,
    f'{optimizer}.type': 'SGD',
    f'{optimizer}.lr': 0.1,
    f'{optimizer}.momentum': 0.9,
    f'{optimizer}.weight_decay': 1e-4,
}
adamw = {'model.backbone.conv_cfg.gamma': 0, f'{optimizer}.type': 'AdamW', f'{optimizer}.weight_decay': 0.05}
moving = {**sgd, f'{latent}.relative': True, f'{latent}.lr_mult': 10}
still_sgd = {**sgd, f'{latent}.relative': False}
still_adamw = {**adamw, f'{latent}.relative': False}
rebnn = 'METHOD=rebnn configs/cifar10/cpu/resnet20.py'
runs = [
    dict(name='transitions_moving', label='rates by magnitude, SGD', config=rebnn, options=moving),
    dict(name='transitions_sgd', label='plain rates, SGD', config=rebnn, options=still_sgd),
    dict(name='transitions_adamw', label='plain rates, AdamW', config=rebnn, options=still_adamw),
]
# At a speed of 1 the rate under SGD is far from its target when ten epochs end.
slow = [(3e-4, 1), (1e-3, 1), (3e-3, 1)]
for name, text, rates, pairs in (
    ('sgd', 'SGD', still_sgd, [*slow, (3e-3, 10), (3e-3, 30), (3e-3, 100)]),
    ('adamw', 'AdamW', still_adamw, [*slow, (3e-3, 10), (3e-3, 30)]),
):
    for target, speed in pairs:
        faster = '' if speed == 1 else f'_speed_{speed}'
        runs.append(
            dict(
                name=f'transitions_{name}_{target}{faster}',
                label=f'transition rate {target}, speed {speed}, {text}',
                config=rebnn,
                options=rates,
                hooks=[dict(type='TransitionRateHook', target=target, speed=speed)],
            )
        )
for name, text, hook in (
    ('dampening', 'dampening', dict(type='DampeningHook', weight=1e-3)),
    ('freezing', 'freezing', dict(type='FreezingHook')),
    ('magnitude', 'magnitudes to 1', dict(type='UnitMagnitudeHook')),
):
    runs.append(
        dict(
            name=f'transitions_{name}',
            label=f'rates by magnitude, SGD, {text}',
            config=rebnn,
            options=moving,
            hooks=[hook],
        )
    )
del adamw, faster, hook, latent, moving, name, optimizer, pairs, rates, rebnn, sgd, slow, speed, still_adamw
del still_sgd, target, text
