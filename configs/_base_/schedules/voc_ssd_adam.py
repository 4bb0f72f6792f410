# BiDet's schedule for SSD on VOC: that of COCO with 300,000 iterations and steps after 30,000, 80,000 and 200,000.
_base_ = './ssd_adam.py'

param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=False, milestones=[30000, 80000, 200000], gamma=0.1),
]
train_cfg = dict(max_iters=300000)
