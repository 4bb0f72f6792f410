_base_ = './tiny_bccd.py'

# The tiny 1-bit detector on VOC-6: the images of PASCAL VOC 2012 that show a person, cat, dog, cow, horse or sheep, in
# its official split. Boxes that VOC calls difficult are marked as crowds, which do not count.
data_root = 'data/voc6/'
metainfo = dict(classes=('person', 'cat', 'dog', 'cow', 'horse', 'sheep'))
scale = (224, 224)
max_epochs = 6
held_out = 'annotations/instances_val.json'

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='Resize', scale=scale, keep_ratio=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=scale, keep_ratio=True),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='PackDetInputs', meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')),
]
images = dict(data_root=data_root, metainfo=metainfo)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline, **images))
val_dataloader = dict(dataset=dict(ann_file=held_out, pipeline=test_pipeline, **images))
test_dataloader = dict(dataset=dict(ann_file=held_out, pipeline=test_pipeline, **images))
val_evaluator = dict(ann_file=data_root + held_out)
test_evaluator = dict(ann_file=data_root + held_out)
model = dict(bbox_head=dict(num_classes=6))
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=50),
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, end=max_epochs, convert_to_iter_based=True),
]
default_hooks = dict(checkpoint=dict(interval=1))
