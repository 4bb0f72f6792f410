# Whether rebnn new-config should take the family first: tiny on the photographs on which ATSS was far behind two
# stages, in data/kangaroo with the layout of data/bccd. What differs is what differs in signs_kangaroo.py; the rows to
# compare with are those of detectors_kangaroo.py.
_base_ = './one_bit_bccd.py'

title = 'A detector designed for one bit, kangaroos (unit: 48 epochs)'
budget = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
options = {
    'data_root': 'data/kangaroo/',
    'val_dataloader.dataset.ann_file': 'annotations/instances_val.json',
    'val_evaluator.ann_file': 'data/kangaroo/annotations/instances_val.json',
    'test_evaluator.ann_file': 'data/kangaroo/annotations/instances_test.json',
    'train_dataloader.dataset.pipeline.3.prob': 0.5,
    'train_dataloader.dataset.pipeline.3.direction': 'horizontal',
    'model.bbox_head.num_classes': 1,
}
for split in ('train', 'val', 'test'):
    options[f'{split}_dataloader.dataset.data_root'] = 'data/kangaroo/'
    options[f'{split}_dataloader.dataset.metainfo.classes'] = ('kangaroo',)
kept = ('tiny_teacher', 'tiny_taught', 'tiny_started_teacher', 'tiny_started_taught')
runs = [run for run in _base_.runs if run['name'] in kept]
del split, kept
