# Tiny on the six classes of VOC 2012 at 224x224, where an epoch costs half of one at 320x320. Images are only flipped:
# changed sizes and cuts need more epochs than this. In float32, for a processor without bfloat16.
_base_ = './one_bit_voc6.py'

title = 'Tiny on six classes of VOC at 224x224 (unit: 6 epochs)'
budget = {'train_cfg.max_epochs': 6, 'param_scheduler.1.end': 6}
options = {
    'train_cfg.val_interval': 6,
    'train_dataloader.dataset.pipeline': [
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations', with_bbox=True),
        dict(type='Resize', scale=(224, 224), keep_ratio=True),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PackDetInputs'),
    ],
    'val_dataloader.dataset.pipeline.1.scale': (224, 224),
    'test_dataloader.dataset.pipeline.1.scale': (224, 224),
}
kept = (
    'yolox_nano_long',
    'nano_teacher',
    'nano_taught',
    'tiny_teacher',
    'tiny_taught',
    'tiny_twin',
    'tiny_taught_long',
)
runs = [run for run in _base_.runs if run['name'] in kept]
for run in runs:
    run['options'] = {key: value for key, value in run.get('options', {}).items() if key != 'optim_wrapper.type'}
    if 'budget' in run:
        run['budget'] = {'train_cfg.max_epochs': 12, 'param_scheduler.1.end': 12}
del kept, run
