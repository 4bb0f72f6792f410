# The runs of atss_bccd.py on another set, in data/kangaroo with the layout of data/bccd; what differs is what differs
# in signs_kangaroo.py. Its anchors are those of the cells, but for the last runs, with the scale that rebnn new-config
# takes for these photographs.
_base_ = './atss_bccd.py'

title = 'ATSS, kangaroos (unit: 48 epochs)'
budget = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
options = {
    'data_root': 'data/kangaroo/',
    'val_dataloader.dataset.ann_file': 'annotations/instances_val.json',
    'val_evaluator.ann_file': 'data/kangaroo/annotations/instances_val.json',
    'test_evaluator.ann_file': 'data/kangaroo/annotations/instances_test.json',
    'train_dataloader.dataset.pipeline.3.prob': 0.5,
    'train_dataloader.dataset.pipeline.3.direction': 'horizontal',
    'model.data_preprocessor.batch_augments': [dict(type='BatchFixedSizePad', size=(320, 320))],
    'model.bbox_head.num_classes': 1,
}
for split in ('train', 'val', 'test'):
    options[f'{split}_dataloader.dataset.data_root'] = 'data/kangaroo/'
    options[f'{split}_dataloader.dataset.metainfo.classes'] = ('kangaroo',)
runs = _base_.runs
for run in runs:
    if 'budget' in run:
        run['budget'] = {key: 2 * epochs for key, epochs in run['budget'].items()}
fitted = {'model.bbox_head.anchor_generator.octave_base_scale': 5}
runs += [
    dict(
        name='atss_fitted_teacher',
        label='the teacher, larger anchors (1)',
        config='configs/bccd/atss_r18_teacher_bccd.py',
        options=fitted,
    ),
    dict(
        name='atss_fitted_taught',
        label='ReBNN, larger anchors, started and distilled (1 + 1)',
        config='configs/bccd/atss_r18_rebnn_taught_bccd.py',
        options=fitted,
        teacher='atss_fitted_teacher',
    ),
]
del split, run, fitted
