# The blood cells' recipes on another set: 163 photographs of kangaroos, one class, in data/kangaroo with the layout of
# data/bccd. Only data, classes and the size of the anchors differ. Photographs differ in size, so nothing is compiled.
_base_ = './signs_bccd.py'

title = 'Signs that move, kangaroos'
hooks = [dict(type='BinaryWeightRecorderHook', layers=[])]
options = {
    'data_root': 'data/kangaroo/',
    'val_evaluator.ann_file': 'data/kangaroo/annotations/instances_val.json',
    'test_evaluator.ann_file': 'data/kangaroo/annotations/instances_test.json',
    'model.roi_head.bbox_head.num_classes': 1,
    'model.rpn_head.anchor_generator.scales': [3.0, 5.0, 8.0, 12.0],
    'model.rpn_head.anchor_generator.ratios': [0.5, 1.0, 2.0],
}
for split in ('train', 'val', 'test'):
    options[f'{split}_dataloader.dataset.data_root'] = 'data/kangaroo/'
    options[f'{split}_dataloader.dataset.metainfo.classes'] = ('kangaroo',)
del split
