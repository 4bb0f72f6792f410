# The same on defects of printed circuit boards, in data/deeppcb: images of 640x640 at half their size, flipped in all
# directions. In float32, for a processor without bfloat16, but for the rows that say so: whether the 1-bit detector of
# photographs is a start for images that are none, at the family's rate and at a fifth of it.
_base_ = './one_bit_voc6.py'

title = 'Detectors designed for one bit, defects on boards (unit: 5 epochs)'
also = ['coco/bbox_mAP_50']
seeds = [0, 1]
budget = {'train_cfg.max_epochs': 5, 'param_scheduler.1.end': 5}
root, tested = 'data/deeppcb/', 'annotations/instances_test.json'
options = {
    'train_cfg.val_interval': 5,
    'data_root': root,
    'train_dataloader.dataset.pipeline': [
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations', with_bbox=True),
        dict(type='Resize', scale=(320, 320), keep_ratio=True),
        dict(type='RandomFlip', prob=[0.25, 0.25, 0.25], direction=['horizontal', 'vertical', 'diagonal']),
        dict(type='PackDetInputs'),
    ],
    'val_evaluator.ann_file': root + 'annotations/instances_val.json',
    'test_evaluator': [dict(type='CocoMetric', ann_file=root + tested, metric='bbox')],
    'test_dataloader.dataset.ann_file': tested,
}
for split in ('train', 'val', 'test'):
    options[f'{split}_dataloader.dataset.data_root'] = root
    options[f'{split}_dataloader.dataset.metainfo.classes'] = (
        'open', 'short', 'mousebite', 'spur', 'copper', 'pin-hole'
    )  # fmt: skip
bfloat16 = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
begun = {**bfloat16, 'load_from': 'rebnn://one_bit_tiny_photos_1bit'}
runs = _base_.runs
for run in list(runs):
    if run['name'] in ('tiny_teacher', 'tiny_twin'):
        runs.append(dict(run, name=f'{run["name"]}_bf16', label=f'{run["label"]}, in bfloat16'))
    run['options'] = {key: value for key, value in run.get('options', {}).items() if key != 'optim_wrapper.type'}
for run in runs:
    if 'budget' in run:
        run['budget'] = {'train_cfg.max_epochs': 10, 'param_scheduler.1.end': 10}
for name, label, options_of in (
    ('taught', 'the teacher', bfloat16),
    ('begun', 'the 1-bit detector of photographs', begun),
    ('begun_slow', 'the same at a fifth of the rate', {**begun, 'optim_wrapper.optimizer.lr': 2e-4}),
):
    runs.append(
        dict(
            name=f'tiny_{name}_bf16',
            label=f'tiny, 1 bit, distilled, from {label}, in bfloat16 (1 + 1)',
            config='configs/one_bit/tiny_taught_bccd.py',
            options=options_of,
            teacher='tiny_teacher_bf16',
        )
    )
for name, label, config, options_of, epochs in (
    ('alone', '1 bit, from the 1-bit detector of photographs, without a teacher', 'tiny_bccd', begun, 10),
    ('alone_long', '1 bit, from the 1-bit detector of photographs, without a teacher', 'tiny_bccd', begun, 24),
    (
        'begun_twin_long',
        'full-precision, from the full-precision detector of photographs',
        'tiny_teacher_bccd',
        {**begun, 'load_from': 'rebnn://one_bit_tiny_photos'},
        24,
    ),
):
    runs.append(
        dict(
            name=f'tiny_{name}_bf16',
            label=f'tiny, {label}, in bfloat16 ({epochs / 5:.2g})',
            config=f'configs/one_bit/{config}.py',
            options=options_of,
            budget={'train_cfg.max_epochs': epochs, 'param_scheduler.1.end': epochs},
        )
    )
runs.append(
    dict(
        name='tiny_taught_long_bf16',
        label='tiny, 1 bit, distilled, from the 1-bit detector of photographs, in bfloat16 (4.8 + 4.8)',
        config='configs/one_bit/tiny_taught_bccd.py',
        options=begun,
        budget={'train_cfg.max_epochs': 24, 'param_scheduler.1.end': 24},
        teacher='tiny_begun_twin_long_bf16',
    )
)
del root, tested, split, run, bfloat16, begun, name, label, config, options_of, epochs
