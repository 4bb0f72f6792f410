# Blood cells with latent weights at rates at which signs move, over the configs' 24 epochs; the score is that of the
# test split. 'before' is the recipe of the first release: latent weights at the rate of all others.
title = 'Signs that move, blood cells'
score = 'coco/bbox_mAP'
also = ['coco/bbox_mAP_50']
seeds = [0, 1]
budget = {'train_cfg.max_epochs': 24, 'param_scheduler.1.end': 24}
test = {}
options = {
    'train_cfg.val_interval': 8,
    'train_dataloader.drop_last': True,
    'default_hooks.checkpoint.interval': 2,
    'default_hooks.checkpoint.max_keep_ckpts': 1,
}
hooks = [
    dict(type='BinaryWeightRecorderHook', layers=[]),
    dict(type='CompileHook', part='backbone'),
    dict(type='CompileHook', part='roi_head.shared_head'),
]
folder = 'configs/bccd'
convs = [f'model.{part}.conv_cfg' for part in ('backbone', 'rpn_head', 'roi_head.shared_head')]
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
moving = {f'{latent}.relative': True, f'{latent}.lr_mult': 4}
before = {f'{latent}.relative': False, f'{latent}.lr_mult': 1}
for conv in convs:
    before |= {f'{conv}.gamma_bounds': (1e-5, 2e-4), f'{conv}.max_share': None}
none = {f'{conv}.gamma': 0 for conv in convs}
exact = {f'{conv}.gamma_bounds': (2e-7, 4e-6) for conv in convs}
share = {f'{conv}.max_share': 0.01 for conv in convs}
rebnn = f'{folder}/faster_rcnn_r18_rebnn_bccd.py'
runs = [
    dict(name='signs_moving', label='ReBNN', config=rebnn, options={**moving, **share}, seeds=[0, 1, 2]),
    dict(name='signs_real', label='full-precision', config=f'{folder}/faster_rcnn_r18_bccd.py', seeds=[0, 1, 2]),
    dict(name='signs_before', label='ReBNN, the recipe before', config=rebnn, options=before),
    dict(name='signs_none', label='ReBNN with gamma 0', config=rebnn, options={**moving, **none}),
    dict(
        name='signs_exact',
        label='ReBNN, bounds 2e-7 and 4e-6',
        config=rebnn,
        options={**moving, **exact, **share},
        seeds=[0],
    ),
    dict(
        name='signs_bireal',
        label='Bi-Real Net',
        config=f'{folder}/faster_rcnn_r18_bireal_bccd.py',
        options=moving,
    ),
    dict(name='signs_bidet', label='BiDet', config=f'{folder}/faster_rcnn_r18_bidet_bccd.py', options=moving),
    dict(name='signs_xnor', label='XNOR-Net', config=f'{folder}/faster_rcnn_r18_xnor_bccd.py', options=moving),
]
del folder, conv, convs, latent, moving, before, none, exact, share, rebnn
