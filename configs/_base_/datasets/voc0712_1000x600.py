# VOC: trained on 2007 and 2012 trainval, tested on 2007 test with eleven-point AP. An epoch is one pass.
_base_ = 'mmdet::_base_/datasets/voc0712.py'

train_sets = [
    dict(
        type='VOCDataset',
        data_root='data/VOCdevkit/',
        ann_file=f'VOC{year}/ImageSets/Main/trainval.txt',
        data_prefix=dict(sub_data_root=f'VOC{year}/'),
        filter_cfg=dict(filter_empty_gt=True, min_size=32),
        pipeline=_base_.train_pipeline,
    )
    for year in (2007, 2012)
]
train_dataloader = dict(batch_size=8, num_workers=4, dataset=dict(times=1, dataset=dict(datasets=train_sets)))
