# COCO 2017 at 300x300, for schedules that count iterations; batch 32 is BiDet's.
_base_ = ['mmdet::_base_/datasets/coco_detection.py', './ssd300_pipeline.py']

data_root = 'data/coco/'
train_dataloader = dict(
    batch_size=32,
    num_workers=8,
    sampler=dict(_delete_=True, type='InfiniteSampler', shuffle=True),
    batch_sampler=None,
    dataset=dict(data_root=data_root, pipeline=_base_.ssd_train_pipeline),
)
val_dataloader = dict(batch_size=8, dataset=dict(data_root=data_root, pipeline=_base_.ssd_test_pipeline))
test_dataloader = val_dataloader
