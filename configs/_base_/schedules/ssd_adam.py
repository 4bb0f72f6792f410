# BiDet's schedule for SSD on COCO: Adam 0.001 at batch 32 without weight decay, 400,000 iterations, a tenth of the
# rate after 40,000, 80,000 and 200,000. The warm-up is mmdet's.
optim_wrapper = dict(
    type='OptimWrapper', constructor='BinaryOptimWrapperConstructor', optimizer=dict(type='Adam', lr=1e-3)
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=False, milestones=[40000, 80000, 200000], gamma=0.1),
]
train_cfg = dict(type='IterBasedTrainLoop', max_iters=400000, val_interval=20000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
auto_scale_lr = dict(enable=False, base_batch_size=32)
