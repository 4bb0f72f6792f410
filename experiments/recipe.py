# What the recipe of the long CIFAR-10 runs leaves to gain, by 15 epochs of the whole set: weight decay, and SGD as the
# published trainings have it (0.1, momentum 0.9, decay 5e-4), for the 1-bit network and the real-valued one.
_base_ = './_base_/cifar10_whole.py'

title = 'CIFAR-10, the recipe'
seeds = [0]
budget = {'train_cfg.max_epochs': 15, 'param_scheduler.end': 15}
options = {
    'default_hooks.logger.interval': 130,
    'default_hooks.checkpoint.interval': 1,
    'train_cfg.val_interval': 5,
}
folder = 'configs/cifar10/cpu'
optimizer = 'optim_wrapper.optimizer'
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
moving = {f'{latent}.relative': True, f'{latent}.lr_mult': 1, 'model.backbone.conv_cfg.gamma': 0}
decay = {f'{optimizer}.type': 'AdamW', f'{optimizer}.weight_decay': 0.1}
sgd = {
    f'{optimizer}.type': 'SGD',
    f'{optimizer}.lr': 0.1,
    f'{optimizer}.momentum': 0.9,
    f'{optimizer}.weight_decay': 5e-4,
}
rebnn = f'{folder}/resnet20_rebnn_cifar10_cpu.py'
real = f'{folder}/resnet20_cifar10_cpu.py'
runs = [
    dict(name='recipe_adam', label='ReBNN with gamma 0, Adam', config=rebnn, options=moving),
    dict(name='recipe_adamw', label='AdamW, decay 0.1', config=rebnn, options={**moving, **decay}),
    dict(
        name='recipe_adamw_0.3',
        label='AdamW, decay 0.3',
        config=rebnn,
        options={**moving, **decay, f'{optimizer}.weight_decay': 0.3},
    ),
    dict(
        name='recipe_adamw_1',
        label='AdamW, decay 1',
        config=rebnn,
        options={**moving, **decay, f'{optimizer}.weight_decay': 1.0},
    ),
    dict(
        name='recipe_sgd',
        label='SGD, decay 5e-4',
        config=rebnn,
        options={**moving, **sgd, f'{latent}.lr_mult': 10},
    ),
    dict(name='recipe_real_adam', label='real-valued, Adam', config=real),
    dict(
        name='recipe_real_adamw',
        label='real-valued, AdamW, decay 0.3',
        config=real,
        options={**decay, f'{optimizer}.weight_decay': 0.3},
    ),
    dict(name='recipe_real_sgd', label='real-valued, SGD, decay 5e-4', config=real, options=sgd),
]
del folder, optimizer, latent, moving, decay, sgd, rebnn, real
