# The paper has no VOC results. This is its optimizer for SSD on COCO with BiDet's length for VOC: as many images, so
# twice the iterations at half the batch. Use it with train_dataloader.batch_size=16.
_base_ = './ssd_sgd.py'

param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=False, milestones=[60000, 160000, 400000], gamma=0.1),
]
train_cfg = dict(max_iters=600000)
