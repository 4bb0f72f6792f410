# Detection: blood cells with Faster R-CNN, from scratch, a third of the configs' epochs. The score is that of the
# test split. Latent weights train at the rate of all others, as the configs had it then, so most signs stay where they
# started; signs_bccd.py is the list with signs that move. The number of proposals changes from image to image, so
# nothing is compiled here.
title = 'Detection of blood cells'
score = 'coco/bbox_mAP_50'
paper = 'AP50 on COCO'
seeds = [0, 1]
budget = {'train_cfg.max_epochs': 8, 'param_scheduler.1.end': 8}
test = {}
options = {
    'train_cfg.val_interval': 4,
    'default_hooks.checkpoint.interval': 1,
    'default_hooks.checkpoint.max_keep_ckpts': 2,
}
hooks = [dict(type='BinaryWeightRecorderHook', layers=[])]
folder = 'configs/bccd'
parts = ('backbone', 'rpn_head', 'roi_head.shared_head')
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
before = {f'{latent}.relative': False, f'{latent}.lr_mult': 1}
printed = {**before, **{f'model.{part}.conv_cfg.max_share': None for part in parts}}
without = {f'model.{part}.conv_cfg.gamma': 0 for part in parts}
unbound = {f'model.{part}.conv_cfg.gamma_bounds': None for part in parts}
padded = {f'model.{part}.conv_cfg.pad_value': -1 for part in parts}
runs = [
    dict(name='rebnn', label='ReBNN', config=f'{folder}/faster_rcnn_r18_rebnn_bccd.py', options=printed, paper=37.6),
    dict(
        name='none',
        label='ReBNN with gamma 0',
        config=f'{folder}/faster_rcnn_r18_rebnn_bccd.py',
        options={**before, **without},
    ),
    dict(
        name='no_bounds',
        label='ReBNN, no bounds',
        config=f'{folder}/faster_rcnn_r18_rebnn_bccd.py',
        options={**printed, **unbound},
        seeds=[0],
    ),
    dict(
        name='pad_-1',
        label='ReBNN, borders of -1',
        config=f'{folder}/faster_rcnn_r18_rebnn_bccd.py',
        options={**printed, **padded},
        seeds=[0],
    ),
    dict(
        name='bireal',
        label='Bi-Real Net',
        config=f'{folder}/faster_rcnn_r18_bireal_bccd.py',
        options=before,
        paper=29.0,
    ),
    dict(name='bidet', label='BiDet', config=f'{folder}/faster_rcnn_r18_bidet_bccd.py', options=before, paper=31.0),
    dict(name='xnor', label='XNOR-Net', config=f'{folder}/faster_rcnn_r18_xnor_bccd.py', options=before, paper=21.6),
    dict(name='real', label='full-precision', config=f'{folder}/faster_rcnn_r18_bccd.py', paper=44.8),
]
del folder, parts, latent, before, printed, without, unbound, padded
