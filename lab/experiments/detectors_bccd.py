# Blood cells: what a teacher, a start from it, two stages and the shortcut of the proposal head give. Labels say how
# long a run is, in units of 24 epochs, and after a plus how long the runs are that it needs; to be compared are runs
# of the same sum.
_base_ = './signs_bccd.py'

title = 'Taught detectors, blood cells (unit: 24 epochs)'
seeds = [0, 1, 2]
folder = 'configs/bccd'
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
moving = {f'{latent}.relative': True, f'{latent}.lr_mult': 4}
borders = {}
for part in ('backbone', 'rpn_head', 'roi_head.shared_head'):
    moving[f'model.{part}.conv_cfg.max_share'] = 0.01
    borders[f'model.{part}.conv_cfg.pad_value'] = -1
long = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
half = {'train_cfg.max_epochs': 12, 'param_scheduler.1.end': 12}
short = {'train_cfg.val_interval': 6}
rebnn = f'{folder}/faster_rcnn_r18_rebnn_bccd.py'
taught = f'{folder}/faster_rcnn_r18_rebnn_taught_bccd.py'
two_stage = f'{folder}/faster_rcnn_r18_rebnn_two_stage_bccd.py'
real = f'{folder}/faster_rcnn_r18_teacher_bccd.py'
stage1 = f'{folder}/faster_rcnn_r18_react_stage1_bccd.py'
shortcut = {'model.rpn_head.block': 'react'}
# What a user would take in place of one bit: half the channels, to be quantized to int8.
narrow = {
    'model.backbone.base_channels': 32,
    'model.rpn_head.in_channels': 128,
    'model.rpn_head.feat_channels': 128,
    'model.roi_head.shared_head': dict(
        type='ReBNNResLayer', depth=18, stage=3, stride=2, base_channels=32, block='relu', conv_cfg=None, _delete_=True
    ),
    'model.roi_head.bbox_roi_extractor.out_channels': 128,
    'model.roi_head.bbox_head.in_channels': 256,
}
# The same with the teacher of the 1-bit network. Of its losses those that compare maps of other widths stay out.
narrow_taught = {
    **narrow,
    'model.backbone.conv_cfg': None,
    'model.backbone.block': 'relu',
    'model.rpn_head.conv_cfg': None,
    'model.rpn_head.block': None,
    'model.start_from_teacher': False,
    'model.losses': [
        dict(type='DKDLoss'),
        dict(type='ObjectnessLoss'),
        dict(type='AttentionTransferLoss', modules=['backbone', 'roi_head.shared_head']),
    ],
}
# One and a half times the channels, for those who would spend more megabytes on one bit.
wide = {
    'model.backbone.base_channels': 96,
    'model.rpn_head.in_channels': 384,
    'model.rpn_head.feat_channels': 384,
    'model.roi_head.shared_head.base_channels': 96,
    'model.roi_head.bbox_roi_extractor.out_channels': 384,
    'model.roi_head.bbox_head.in_channels': 768,
    'optim_wrapper.type': 'Bfloat16OptimWrapper',
}
# What each part costs: full precision from the start, everything else 1-bit; compared with the run `taught_bfloat16`.
kept = {
    part: {f'model.{part}.conv_cfg.keep_real': ['downsample', 'shortcut', part]}
    for part in ('backbone', 'rpn_head', 'roi_head.shared_head')
}
bfloat16 = {**moving, 'optim_wrapper.type': 'Bfloat16OptimWrapper'}
compiled = [dict(type='CompileHook', part=f'teacher.{part}') for part in ('backbone', 'roi_head.shared_head')]
runs = [
    dict(name='teacher', label='the teacher: full-precision, same blocks (1)', config=real),
    dict(
        name='taught',
        label='ReBNN, started and distilled (1 + 1)',
        config=taught,
        options=moving,
        teacher='teacher',
    ),
    dict(name='rebnn_long', label='ReBNN (2)', config=rebnn, options=moving, budget=long),
    dict(
        name='shortcut_long',
        label='ReBNN, shortcut in the proposal head (2)',
        config=rebnn,
        options={**moving, **shortcut},
        budget=long,
    ),
    dict(
        name='twin_long',
        label='full-precision counterpart (2)',
        config=f'{folder}/faster_rcnn_r18_bccd.py',
        budget=long,
    ),
    dict(
        name='narrow_long',
        label='full-precision, half the channels (2)',
        config=f'{folder}/faster_rcnn_r18_bccd.py',
        options=narrow,
        budget=long,
    ),
    dict(
        name='narrow_taught',
        label='full-precision, half the channels, distilled (1 + 1)',
        config=taught,
        options=narrow_taught,
        teacher='teacher',
    ),
    dict(name='real_long', label='full-precision, same blocks (2)', config=real, budget=long),
    dict(
        name='stage1',
        label='first stage, 1-bit inputs (1/2 + 1)',
        config=stage1,
        options=short,
        budget=half,
        teacher='teacher',
    ),
    dict(
        name='two_stage',
        label='ReBNN, two stages, started and distilled (1/2 + 3/2)',
        config=two_stage,
        options={**moving, **short},
        budget=half,
        start='stage1',
        teacher='teacher',
    ),
    dict(
        name='started',
        label='ReBNN, started, not distilled (1 + 1)',
        config=taught,
        options={**moving, 'model.losses': []},
        teacher='teacher',
    ),
    dict(
        name='taught_only',
        label='ReBNN, taught, random start (1 + 1)',
        config=taught,
        options={**moving, 'model.start_from_teacher': False},
        teacher='teacher',
    ),
    dict(
        name='taught_slow',
        label='ReBNN, started and distilled, a quarter of the latent rate (1 + 1)',
        config=taught,
        options={**moving, f'{latent}.lr_mult': 1},
        teacher='teacher',
        seeds=[0],
    ),
    dict(
        name='taught_scores',
        label='ReBNN, started and distilled, scores only (1 + 1)',
        config=taught,
        options={**moving, 'model.losses': [dict(type='DKDLoss'), dict(type='ObjectnessLoss')]},
        teacher='teacher',
        seeds=[0],
    ),
    # Faster where a processor multiplies bfloat16; is it as good?
    dict(
        name='taught_bfloat16',
        label='ReBNN, started and distilled, in bfloat16 (1 + 1)',
        config=taught,
        options=bfloat16,
        teacher='teacher',
        seeds=[1],
    ),
    dict(
        name='taught_by_long',
        label='ReBNN, started and distilled, in bfloat16, by a teacher of twice the length (2 + 1)',
        config=taught,
        options=bfloat16,
        teacher='real_long',
        seeds=[1],
    ),
    dict(
        name='taught_ema',
        label='ReBNN, started and distilled, in bfloat16, weights averaged over 200 steps (1 + 1)',
        config=taught,
        options=bfloat16,
        hooks=[dict(type='EMAHook', momentum=5e-3, update_buffers=True)],
        teacher='teacher',
        seeds=[1],
    ),
    # What helps CIFAR-10 (recipe.py). Over so few steps the latent weights shrink as much by ten times the decay.
    dict(
        name='taught_adamw',
        label='ReBNN, started and distilled, AdamW, decay 1, in bfloat16 (1 + 1)',
        config=taught,
        options={**bfloat16, 'optim_wrapper.optimizer.type': 'AdamW', 'optim_wrapper.optimizer.weight_decay': 1.0},
        teacher='teacher',
        seeds=[1],
    ),
    dict(
        name='taught_long',
        label='ReBNN, started and distilled, in bfloat16, twice the length (1 + 2)',
        config=taught,
        options=bfloat16,
        hooks=compiled,
        budget=long,
        teacher='teacher',
        seeds=[1],
    ),
    dict(
        name='shared_head_real',
        label='ReBNN but for a real shared head, started and distilled, in bfloat16 (1 + 1)',
        config=taught,
        options={**bfloat16, **kept['roi_head.shared_head']},
        teacher='teacher',
        seeds=[1],
    ),
    dict(
        name='backbone_real',
        label='ReBNN but for a real backbone, started and distilled, in bfloat16 (1 + 1)',
        config=taught,
        options={**bfloat16, **kept['backbone']},
        teacher='teacher',
        seeds=[1],
    ),
    dict(
        name='rpn_head_real',
        label='ReBNN but for a real proposal head, started and distilled, in bfloat16 (1 + 1)',
        config=taught,
        options={**bfloat16, **kept['rpn_head']},
        teacher='teacher',
        seeds=[1],
    ),
    dict(
        name='all_real',
        label='all of them real, started and distilled, in bfloat16 (1 + 1)',
        config=taught,
        options={**bfloat16, **kept['backbone'], **kept['rpn_head'], **kept['roi_head.shared_head']},
        teacher='teacher',
        seeds=[1],
    ),
    dict(
        name='wide_teacher',
        label='the teacher, 1.5 times the channels, in bfloat16 (1)',
        config=real,
        options=wide,
        seeds=[1],
    ),
    dict(
        name='wide_taught',
        label='ReBNN, 1.5 times the channels, started and distilled, in bfloat16 (1 + 1)',
        config=taught,
        options={**moving, **wide},
        teacher='wide_teacher',
        seeds=[1],
    ),
    dict(
        name='wide_borders',
        label='ReBNN, 1.5 times the channels, borders of -1, started and distilled, in bfloat16 (1 + 1)',
        config=taught,
        options={**moving, **wide, **borders},
        hooks=compiled,
        teacher='wide_teacher',
        seeds=[1],
    ),
]
del folder, latent, moving, borders, part, long, half, short, rebnn, taught, two_stage, real, stage1, shortcut
del narrow, narrow_taught, wide, kept, bfloat16, compiled
