# The blood cells' recipes on another set: 163 photographs of kangaroos, one class, in data/kangaroo with the layout of
# data/bccd. What differs: data, classes and the size of the anchors; flips to the side only, because animals stand
# upright; images padded to one size, so that the backbone can be compiled; twice as many epochs of half as many steps.
_base_ = './signs_bccd.py'

title = 'Signs that move, kangaroos'
budget = {'train_cfg.max_epochs': 48, 'param_scheduler.1.end': 48}
options = {
    'data_root': 'data/kangaroo/',
    'val_dataloader.dataset.ann_file': 'annotations/instances_val.json',
    'val_evaluator.ann_file': 'data/kangaroo/annotations/instances_val.json',
    'test_evaluator.ann_file': 'data/kangaroo/annotations/instances_test.json',
    'train_dataloader.dataset.pipeline.3.prob': 0.5,
    'train_dataloader.dataset.pipeline.3.direction': 'horizontal',
    'model.data_preprocessor.batch_augments': [dict(type='BatchFixedSizePad', size=(320, 320))],
    'model.roi_head.bbox_head.num_classes': 1,
    'model.rpn_head.anchor_generator.scales': [3.0, 5.0, 8.0, 12.0],
    'model.rpn_head.anchor_generator.ratios': [0.5, 1.0, 2.0],
}
for split in ('train', 'val', 'test'):
    options[f'{split}_dataloader.dataset.data_root'] = 'data/kangaroo/'
    options[f'{split}_dataloader.dataset.metainfo.classes'] = ('kangaroo',)
del split
