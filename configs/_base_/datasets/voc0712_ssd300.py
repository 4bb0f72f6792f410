# VOC at 300x300, for schedules that count iterations; batch 32 is BiDet's. Tested on 2007 test with eleven-point AP.
_base_ = ['mmdet::_base_/datasets/voc0712.py', './ssd300_pipeline.py']

train_sets = [
    dict(
        type='VOCDataset',
        data_root='data/VOCdevkit/',
        ann_file=f'VOC{year}/ImageSets/Main/trainval.txt',
        data_prefix=dict(sub_data_root=f'VOC{year}/'),
        filter_cfg=dict(filter_empty_gt=True, min_size=32),
        pipeline=_base_.ssd_train_pipeline,
    )
    for year in (2007, 2012)
]
train_dataloader = dict(
    batch_size=32,
    num_workers=8,
    sampler=dict(_delete_=True, type='InfiniteSampler', shuffle=True),
    batch_sampler=None,
    dataset=dict(times=1, dataset=dict(datasets=train_sets)),
)
val_dataloader = dict(batch_size=8, dataset=dict(pipeline=_base_.ssd_test_pipeline))
test_dataloader = val_dataloader
