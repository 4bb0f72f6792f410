# Kangaroos, with backbones that first learnt to tell 50 classes of Tiny-ImageNet apart, each of its own blocks. The
# checkpoints are made before, with data/classes as configs/pretrain/resnet18_classes.py has it:
#     python tools/train.py configs/pretrain/resnet18_teacher_classes.py --amp --cfg-options randomness.seed=1
#     python tools/train.py configs/pretrain/resnet18_classes.py --amp --cfg-options randomness.seed=1
# Labels say how long the detectors are trained, as in detectors_kangaroo.py.
_base_ = './detectors_kangaroo.py'

title = 'Pretrained, kangaroos (unit: 48 epochs)'
seeds = [0, 1]
folder = 'configs/bccd'
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
bfloat16 = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
moving = {**bfloat16, f'{latent}.relative': True, f'{latent}.lr_mult': 4}
for part in ('backbone', 'rpn_head', 'roi_head.shared_head'):
    moving[f'model.{part}.conv_cfg.max_share'] = 0.01
starts = {}
for blocks in ('resnet18', 'resnet18_teacher'):
    start = dict(type='Pretrained', checkpoint=f'work_dirs/{blocks}_classes/epoch_30.pth', prefix='backbone.')
    if blocks == 'resnet18':  # in whose place the counterpart's config has None
        start['_delete_'] = True
    starts[blocks] = {'model.backbone.init_cfg': start, 'model.roi_head.shared_head.init_cfg': start}
runs = [
    dict(
        name='pretrained_teacher',
        label='the teacher: full-precision, same blocks (1)',
        config=f'{folder}/faster_rcnn_r18_teacher_bccd.py',
        options={**bfloat16, **starts['resnet18_teacher']},
    ),
    dict(
        name='pretrained_taught',
        label='ReBNN, started and distilled (1 + 1)',
        config=f'{folder}/faster_rcnn_r18_rebnn_taught_bccd.py',
        options=moving,
        teacher='pretrained_teacher',
    ),
    dict(
        name='pretrained_twin',
        label='full-precision counterpart (2)',
        config=f'{folder}/faster_rcnn_r18_bccd.py',
        options={**bfloat16, **starts['resnet18']},
        budget={'train_cfg.max_epochs': 96, 'param_scheduler.1.end': 96},
    ),
]
del folder, latent, bfloat16, moving, part, starts, blocks, start
