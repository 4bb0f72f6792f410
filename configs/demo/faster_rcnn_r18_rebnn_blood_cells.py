_base_ = '../bccd/faster_rcnn_r18_rebnn_bccd.py'

# `make demo`: the recipe of the blood cells in a sixth of its epochs. Each epoch is scored on a third of the test
# images, the end on all of them.
max_epochs = 4
# Without a file of its own the evaluator knows just the images it is shown, by their 'instances'.
*prepare, pack = _base_.test_pipeline
shown = [*prepare, dict(pack, meta_keys=(*pack.meta_keys, 'instances'))]
val_dataloader = dict(dataset=dict(indices=24, pipeline=shown))
val_evaluator = dict(ann_file=None)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=50),
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, end=max_epochs, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=max_epochs, val_interval=1)
default_hooks = dict(logger=dict(interval=10), checkpoint=dict(interval=max_epochs))
randomness = dict(seed=0)
del prepare, pack, shown
