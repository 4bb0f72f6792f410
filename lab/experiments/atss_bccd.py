# Blood cells with one stage: a 1-bit ATSS that a full-precision one of its blocks starts and teaches. Labels as in
# detectors_bccd.py.
_base_ = './signs_bccd.py'

title = 'ATSS, blood cells (unit: 24 epochs)'
seeds = [0, 1, 2]
folder = 'configs/bccd'
long = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
hooks = [
    dict(type='BinaryWeightRecorderHook', layers=[]),
    dict(type='CompileHook', part='backbone'),
]
runs = [
    dict(
        name='atss_teacher',
        label='the teacher: full-precision, same blocks (1)',
        config=f'{folder}/atss_r18_teacher_bccd.py',
    ),
    dict(
        name='atss_taught',
        label='ReBNN, started and distilled (1 + 1)',
        config=f'{folder}/atss_r18_rebnn_taught_bccd.py',
        teacher='atss_teacher',
    ),
    dict(name='atss_long', label='ReBNN (2)', config=f'{folder}/atss_r18_rebnn_bccd.py', budget=long),
    dict(
        name='atss_real_long',
        label='full-precision counterpart (2)',
        config=f'{folder}/atss_r18_bccd.py',
        budget=long,
    ),
    dict(
        name='atss_same_long',
        label='full-precision, same blocks (2)',
        config=f'{folder}/atss_r18_teacher_bccd.py',
        budget=long,
    ),
]
del folder, long
