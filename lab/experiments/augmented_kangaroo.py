# Kangaroos, with training images at half to twice their size, cropped to the network's input, in other colours: what
# they are seen in changes, so a network cannot learn 97 photographs by heart. Labels say how long the detectors are
# trained, as in detectors_kangaroo.py, whose random starts and rates these have; in bfloat16.
_base_ = './detectors_kangaroo.py'

title = 'Augmented, kangaroos (unit: 48 epochs)'
options = dict(
    _delete_=True,
    **{key: value for key, value in _base_.options.items() if '.pipeline.' not in key},
    **{
        'train_dataloader.dataset.pipeline': [
            dict(type='LoadImageFromFile'),
            dict(type='LoadAnnotations', with_bbox=True),
            dict(type='RandomResize', scale=(320, 240), ratio_range=(0.5, 2.0), keep_ratio=True),
            dict(type='RandomCrop', crop_size=(320, 320)),
            dict(type='FilterAnnotations', min_gt_bbox_wh=(1, 1)),
            dict(type='RandomFlip', prob=0.5),
            dict(type='PhotoMetricDistortion'),
            dict(type='PackDetInputs'),
        ]
    },
)
folder = 'configs/bccd'
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
bfloat16 = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
moving = {**bfloat16, f'{latent}.relative': True, f'{latent}.lr_mult': 4}
for part in ('backbone', 'rpn_head', 'roi_head.shared_head'):
    moving[f'model.{part}.conv_cfg.max_share'] = 0.01
runs = [
    dict(
        name='augmented_teacher',
        label='the teacher: full-precision, same blocks (1)',
        config=f'{folder}/faster_rcnn_r18_teacher_bccd.py',
        options=bfloat16,
    ),
    dict(
        name='augmented_taught',
        label='ReBNN, started and distilled (1 + 1)',
        config=f'{folder}/faster_rcnn_r18_rebnn_taught_bccd.py',
        options=moving,
        teacher='augmented_teacher',
    ),
    dict(
        name='augmented_twin',
        label='full-precision counterpart (2)',
        config=f'{folder}/faster_rcnn_r18_bccd.py',
        options=bfloat16,
        budget={'train_cfg.max_epochs': 96, 'param_scheduler.1.end': 96},
    ),
    # Whether one bit only needs longer to learn from images that keep changing.
    dict(
        name='augmented_taught_long',
        label='ReBNN, started and distilled (1 + 2)',
        config=f'{folder}/faster_rcnn_r18_rebnn_taught_bccd.py',
        options=moving,
        budget={'train_cfg.max_epochs': 96, 'param_scheduler.1.end': 96},
        teacher='augmented_teacher',
        seeds=[0],
    ),
    dict(
        name='augmented_twin_long',
        label='full-precision counterpart (3)',
        config=f'{folder}/faster_rcnn_r18_bccd.py',
        options=bfloat16,
        budget={'train_cfg.max_epochs': 144, 'param_scheduler.1.end': 144},
        seeds=[0],
    ),
]
del folder, latent, bfloat16, moving, part
