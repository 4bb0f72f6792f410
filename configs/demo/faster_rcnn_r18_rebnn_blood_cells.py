_base_ = '../bccd/faster_rcnn_r18_rebnn_bccd.py'

# `make demo`: the recipe of the blood cells in a sixth of its epochs, on images that come with the repository. Each
# epoch is scored on a third of the test images, the end on all of them.
data_root = 'demo/blood_cells/'
max_epochs = 4
train_dataloader = dict(dataset=dict(data_root=data_root))
unseen = dict(data_root=data_root, ann_file='annotations/instances_test.json')
# Without a file of its own the evaluator knows just the images it is shown, by their 'instances'.
*prepare, pack = _base_.test_pipeline
shown = [*prepare, dict(pack, meta_keys=(*pack.meta_keys, 'instances'))]
val_dataloader = dict(dataset=dict(indices=24, pipeline=shown, **unseen))
val_evaluator = dict(ann_file=None)
test_dataloader = dict(dataset=unseen)
test_evaluator = dict(ann_file=data_root + 'annotations/instances_test.json')
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=50),
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, end=max_epochs, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=max_epochs, val_interval=1)
default_hooks = dict(logger=dict(interval=10), checkpoint=dict(interval=max_epochs))
randomness = dict(seed=0)
del prepare, pack, shown
