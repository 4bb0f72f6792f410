# The second input size: blood cells at 160x120, a quarter of the pixels, where every network must be trained again. In
# float32, for a processor without bfloat16.
_base_ = './one_bit_bccd.py'

title = 'Detectors designed for one bit, blood cells at 160x120 (unit: 24 epochs)'
seeds = [0]
options = {}
for loader in ('train', 'val', 'test'):
    options[f'{loader}_dataloader.dataset.pipeline.{2 if loader == "train" else 1}.scale'] = (160, 120)
kept = (
    'yolox_nano_long',
    'yolox_tiny_long',
    'rtmdet_tiny_long',
    'ssdlite_long',
    'nano_teacher',
    'nano_taught',
    'tiny_teacher',
    'tiny_taught',
    'small_teacher',
    'small_taught',
)
runs = [run for run in _base_.runs if run['name'] in kept]
for run in runs:
    run['options'] = {key: value for key, value in run.get('options', {}).items() if key != 'optim_wrapper.type'}
del kept, loader, run
