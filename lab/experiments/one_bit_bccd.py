# Blood cells: the one-stage detectors designed for one bit in three sizes, from scratch, and started and distilled by
# their full-precision blocks, next to small detectors that people take. Labels as in detectors_bccd.py.
_base_ = './signs_bccd.py'

title = 'Detectors designed for one bit, blood cells (unit: 24 epochs)'
seeds = [0, 1, 2]
folder = 'configs/one_bit'
bfloat16 = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
long = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
longer = {'train_cfg.max_epochs': 192, 'param_scheduler.1.end': 192}
hooks = [dict(type='BinaryWeightRecorderHook', layers=[])]  # compiling costs more here than it gives
runs = []
for name, label in (
    ('yolox_nano', 'YOLOX-nano'),
    ('yolox_tiny', 'YOLOX-tiny'),
    ('rtmdet_tiny', 'RTMDet-tiny'),
    ('ssdlite', 'SSDLite'),
):
    rival = f'{folder}/rivals/{name}_bccd.py'
    runs += [
        dict(name=f'{name}_long', label=f'{label}, fp32 (2)', config=rival, budget=long),
        dict(name=f'{name}_four_times', label=f'{label}, fp32 (8)', config=rival, budget=longer),
    ]
    if name != 'yolox_nano':  # trained in bfloat16, like the 1-bit ones, for want of time
        runs[-1].update(label=f'{label}, trained in bfloat16 (8)', options=bfloat16)
start = dict(type='Pretrained', checkpoint='rebnn://one_bit_tiny', prefix='backbone.')
for name, size, label, begun in (
    ('nano', 'nano', 'nano', {}),
    ('tiny', 'tiny', 'tiny', {}),
    ('small', 'small', 'small', {}),
    ('tiny_started', 'tiny', "tiny from the package's start", {'model.backbone.init_cfg': start}),
):
    runs += [
        dict(
            name=f'{name}_teacher',
            label=f'{label}, full-precision, the teacher (1)',
            config=f'{folder}/{size}_teacher_bccd.py',
            options={**bfloat16, **begun},
        ),
        dict(
            name=f'{name}_taught',
            label=f'{label}, 1 bit, started and distilled (1 + 1)',
            config=f'{folder}/{size}_taught_bccd.py',
            options=bfloat16,
            teacher=f'{name}_teacher',
        ),
    ]
begun = {**bfloat16, 'load_from': 'rebnn://one_bit_tiny_photos_1bit'}
for name, rate in (('begun', 1e-3), ('begun_slow', 2e-4)):
    runs += [
        dict(
            name=f'tiny_{name}',
            label=f'tiny, 1 bit, distilled, from the 1-bit detector of photographs, rate {rate:.0e} (1 + 1)',
            config=f'{folder}/tiny_taught_bccd.py',
            options={**begun, 'optim_wrapper.optimizer.lr': rate},
            teacher='tiny_teacher',
        ),
    ]
for name, size, label, given in (
    ('nano_long', 'nano', 'nano, 1 bit, from scratch', bfloat16),
    ('tiny_long', 'tiny', 'tiny, 1 bit, from scratch', bfloat16),
    ('small_long', 'small', 'small, 1 bit, from scratch', bfloat16),
    ('tiny_alone', 'tiny', 'tiny, 1 bit, from the 1-bit detector of photographs, without a teacher', begun),
):
    config = f'{folder}/{size}_bccd.py'
    runs += [dict(name=name, label=f'{label} (2)', config=config, options=given, budget=long)]
runs += [dict(name='tiny_alone_short', label=f'{label} (1)', config=config, options=begun)]
del folder, bfloat16, long, longer, start, size, name, label, begun, rate, rival, given, config
