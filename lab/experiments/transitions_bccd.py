# The hooks that schedule, damp or freeze changes of signs, each added to the recipe of the tiny detector on the blood
# cells: 12 epochs from the 1-bit detector of photographs, without a teacher.
_base_ = './one_bit_bccd.py'

title = 'Blood cells, scheduled signs (unit: 12 epochs)'
seeds = [0]
budget = {'train_cfg.max_epochs': 12, 'param_scheduler.1.end': 12}
options = {'train_cfg.val_interval': 6}
tiny = dict(
    config='configs/one_bit/tiny_bccd.py',
    options={'optim_wrapper.type': 'Bfloat16OptimWrapper', 'load_from': 'rebnn://one_bit_tiny_photos_1bit'},
)
runs = [dict(name='recipe', label='the recipe', **tiny)]
for name, label, hook in (
    ('rate', 'transition rate 0.003', dict(type='TransitionRateHook', target=3e-3, speed=1)),
    ('dampening', 'dampening', dict(type='DampeningHook', weight=1e-3)),
    ('freezing', 'freezing', dict(type='FreezingHook')),
    ('magnitude', 'magnitudes to 1', dict(type='UnitMagnitudeHook')),
):
    runs += [dict(name=name, label=label, hooks=[hook], **tiny)]
del tiny, name, label, hook
