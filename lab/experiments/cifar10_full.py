# The whole of CIFAR-10 over 100 epochs, where published ones take 400 to 1,000: the resilient gradient and none, two
# other methods, the full-precision network, and what a better recipe gives. Latent weights train at rates at which
# signs move.
_base_ = './_base_/cifar10_whole.py'

title = 'CIFAR-10 at length'
seeds = [0, 1]
budget = {'train_cfg.max_epochs': 100, 'param_scheduler.end': 100}
options = {'default_hooks.logger.interval': 390, 'default_hooks.checkpoint.interval': 1}
half = {'train_cfg.max_epochs': 50, 'param_scheduler.end': 50}
more = {'train_cfg.max_epochs': 40, 'param_scheduler.end': 40}
still_more = {'train_cfg.max_epochs': 60, 'param_scheduler.end': 60}
folder = 'configs/cifar10/cpu'
conv = 'model.backbone.conv_cfg'
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
moving = {f'{latent}.relative': True, f'{latent}.lr_mult': 1}
rebnn = dict(config=f'METHOD=rebnn {folder}/resnet20.py')
borders = {f'{conv}.pad_value': -1}
optimizer = 'optim_wrapper.optimizer'
sgd = {
    f'{optimizer}.type': 'SGD',
    f'{optimizer}.lr': 0.1,
    f'{optimizer}.momentum': 0.9,
    f'{optimizer}.weight_decay': 5e-4,
}
# A fifth of the decay of recipe_sgd, for seven times its steps: what counts is their product with the rates.
moving_sgd = {**moving, **sgd, f'{optimizer}.weight_decay': 1e-4, f'{latent}.lr_mult': 10}
# Signs settled in the last twenty epochs, below 0.02: going on from 0.03 gives that range 27 more.
gently = {**moving_sgd, f'{optimizer}.lr': 0.03}
runs = [
    dict(name='full_rebnn', label='ReBNN', options=moving, **rebnn),
    dict(name='full_none', label='ReBNN with gamma 0', options={**moving, f'{conv}.gamma': 0}, **rebnn),
    dict(name='full_real', label='full-precision counterpart', config=f'{folder}/resnet20_real.py'),
    dict(
        name='full_adamw',
        label='ReBNN, AdamW, decay 0.1',
        options={**moving, f'{optimizer}.type': 'AdamW', f'{optimizer}.weight_decay': 0.1},
        **rebnn,
    ),
    dict(
        name='full_adamw_none',
        label='ReBNN with gamma 0, AdamW, decay 0.1',
        options={
            **moving,
            f'{optimizer}.type': 'AdamW',
            f'{optimizer}.weight_decay': 0.1,
            f'{conv}.gamma': 0,
        },
        **rebnn,
    ),
    dict(name='full_sgd', label='ReBNN, SGD, decay 1e-4', options=moving_sgd, **rebnn),
    dict(
        name='full_sgd_none',
        label='ReBNN with gamma 0, SGD, decay 1e-4',
        options={**moving_sgd, f'{conv}.gamma': 0},
        **rebnn,
    ),
    # What gained most by 15 epochs (recipe.py).
    dict(
        name='full_sgd_oscillation',
        label='ReBNN, SGD, decay 1e-4, Eq. 14 by signs there and back in 100 steps, no bounds',
        options={**moving_sgd, f'{conv}.gamma': 1e-5},
        hooks=[dict(type='ReBNNOscillationHook', window=100)],
        **rebnn,
    ),
    dict(
        name='full_sgd_react',
        label='ReActNet, SGD, decay 1e-4',
        config=f'METHOD=react {folder}/resnet20.py',
        options=moving_sgd,
    ),
    dict(
        name='full_sgd_adabin',
        label='AdaBin, SGD, decay 1e-4',
        config=f'METHOD=adabin {folder}/resnet20.py',
        options=moving_sgd,
    ),
    dict(
        name='full_sgd_more',
        label='ReBNN, SGD, decay 1e-4, 40 epochs more',
        options=gently,
        budget=more,
        start='full_sgd',
        **rebnn,
    ),
    dict(
        name='full_sgd_taught',
        label='ReBNN, SGD, decay 1e-4, 40 epochs more with a teacher',
        config=f'METHOD=rebnn {folder}/resnet20_two_stage.py',
        options=gently,
        budget=more,
        hooks=[dict(type='CompileHook', part='teacher.backbone')],
        start='full_sgd',
    ),
    dict(
        name='full_sgd_taught_more',
        label='ReBNN, SGD, decay 1e-4, 40 and 60 epochs more with a teacher',
        config=f'METHOD=rebnn {folder}/resnet20_two_stage.py',
        options=gently,
        budget=still_more,
        hooks=[dict(type='CompileHook', part='teacher.backbone')],
        start='full_sgd_taught',
    ),
    # The same without the teacher, which was worth nothing in the first forty.
    dict(
        name='full_sgd_still_more',
        label='ReBNN, SGD, decay 1e-4, 40 and 60 epochs more',
        options=gently,
        budget=still_more,
        start='full_sgd_more',
        seeds=[0],
        **rebnn,
    ),
    dict(
        name='full_real_sgd',
        label='full-precision counterpart, SGD, decay 5e-4',
        config=f'{folder}/resnet20_real.py',
        options=sgd,
    ),
    dict(
        name='full_real_adamw',
        label='full-precision counterpart, AdamW, decay 0.1',
        config=f'{folder}/resnet20_real.py',
        options={f'{optimizer}.type': 'AdamW', f'{optimizer}.weight_decay': 0.1},
    ),
    dict(
        name='full_stage1',
        label='first stage with a teacher, half the epochs',
        config=f'{folder}/resnet20_stage1.py',
        options=borders,
        budget=half,
        table=False,
    ),
    dict(
        name='full_two_stage',
        label='ReBNN, borders of -1, two stages with a teacher, half the epochs each',
        config=f'METHOD=rebnn {folder}/resnet20_two_stage.py',
        options={**moving, **borders},
        budget=half,
        hooks=[dict(type='CompileHook', part='teacher.backbone')],
        start='full_stage1',
    ),
]
del half, more, still_more, folder, conv, latent, moving, rebnn, borders, optimizer, sgd, moving_sgd, gently
