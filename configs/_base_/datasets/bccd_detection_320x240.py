# BCCD: microscope images of 640x480 with boxes of blood cells. Half size keeps the smallest ones at 15 pixels.
# The repository ships the images for training and test; without those for validation each epoch is scored on the test.
dataset_type = 'CocoDataset'
data_root = 'demo/blood_cells/'
metainfo = dict(classes=('RBC', 'WBC', 'Platelets'))
scale = (320, 240)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='Resize', scale=scale, keep_ratio=True),
    # A microscope image has no upright.
    dict(type='RandomFlip', prob=[0.25, 0.25, 0.25], direction=['horizontal', 'vertical', 'diagonal']),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=scale, keep_ratio=True),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]
images = dict(type=dataset_type, data_root=data_root, metainfo=metainfo, data_prefix=dict(img='images/'))
workers = dict(num_workers=1, persistent_workers=True)
train_dataloader = dict(
    batch_size=4,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        ann_file='annotations/instances_train.json',
        filter_cfg=dict(filter_empty_gt=True),
        pipeline=train_pipeline,
        **images,
    ),
    **workers,
)
evaluation = dict(batch_size=1, drop_last=False, sampler=dict(type='DefaultSampler', shuffle=False), **workers)
unseen = dict(test_mode=True, pipeline=test_pipeline, **images)
val_dataloader = dict(dataset=dict(ann_file='annotations/instances_test.json', **unseen), **evaluation)
test_dataloader = dict(dataset=dict(ann_file='annotations/instances_test.json', **unseen), **evaluation)
val_evaluator = dict(type='CocoMetric', ann_file=data_root + 'annotations/instances_test.json', metric='bbox')
test_evaluator = dict(type='CocoMetric', ann_file=data_root + 'annotations/instances_test.json', metric='bbox')
