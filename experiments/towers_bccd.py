# Blood cells with one-stage detectors: what shortcuts in the towers of the head are worth to one bit, and a teacher.
# Numbers in brackets as in detectors_bccd.py. RetinaNet in bfloat16, ATSS in float32.
_base_ = './signs_bccd.py'

title = 'One stage, blood cells'
seeds = [0, 1]
folder = 'configs/bccd'
rebnn = f'{folder}/retinanet_r18_rebnn_bccd.py'
bfloat16 = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
long = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
hooks = [
    dict(type='BinaryWeightRecorderHook', layers=[]),
    dict(type='BinaryCompileHook', part='backbone'),
]
runs = [
    dict(name='towers', label='RetinaNet, ReBNN, a shortcut per convolution (1)', config=rebnn, options=bfloat16),
    dict(
        name='towers_stock',
        label="RetinaNet, ReBNN, mmdet's towers (1)",
        config=rebnn,
        options={**bfloat16, 'model.bbox_head.block': 'relu', 'model.bbox_head.shortcut': False},
    ),
    dict(
        name='towers_real',
        label='RetinaNet, real-valued twin (1)',
        config=f'{folder}/retinanet_r18_bccd.py',
        options=bfloat16,
    ),
    dict(name='atss', label='ATSS, ReBNN (1)', config=f'{folder}/atss_r18_rebnn_bccd.py'),
    dict(name='atss_real', label='ATSS, real-valued twin (1)', config=f'{folder}/atss_r18_bccd.py'),
    dict(
        name='atss_teacher',
        label='ATSS, its teacher: real-valued, same blocks (1)',
        config=f'{folder}/atss_r18_teacher_bccd.py',
    ),
    dict(
        name='atss_taught',
        label='ATSS, ReBNN, started and taught (1 + 1)',
        config=f'{folder}/atss_r18_rebnn_taught_bccd.py',
        teacher='atss_teacher',
    ),
    dict(
        name='atss_real_long',
        label='ATSS, real-valued twin (2)',
        config=f'{folder}/atss_r18_bccd.py',
        budget=long,
    ),
]
del folder, rebnn, bfloat16, long
