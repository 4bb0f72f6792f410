# Blood cells, with the augmented images and the runs of augmented_kangaroo.py, in half the epochs. A microscope image
# has no upright, so cells are flipped to all sides, as their configs have it.
_base_ = './augmented_kangaroo.py'

title = 'Augmented, blood cells (unit: 24 epochs)'
budget = {'train_cfg.max_epochs': 24, 'param_scheduler.1.end': 24}
flip = dict(type='RandomFlip', prob=[0.25, 0.25, 0.25], direction=['horizontal', 'vertical', 'diagonal'])
kangaroos = ('data_root', 'ann_file', 'metainfo', 'num_classes', 'anchor_generator')
options = dict(
    _delete_=True,
    **{key: value for key, value in _base_.options.items() if not any(part in key for part in kangaroos)},
)
pipeline = 'train_dataloader.dataset.pipeline'
options[pipeline] = [flip if step['type'] == 'RandomFlip' else step for step in options[pipeline]]
runs = _base_.runs[:3]
runs[2]['budget'] = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
del flip, kangaroos, pipeline
