# BiDet's schedule for Faster R-CNN: Adam 0.001 at batch 32 without weight decay, a tenth of the rate after 6 and 10 of
# 12 epochs. The warm-up is mmdet's. Use it with train_dataloader.batch_size=32.
_base_ = './rebnn_detection.py'

optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='Adam', lr=1e-3),
    paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=1))),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=12, milestones=[6, 10], gamma=0.1),
]
auto_scale_lr = dict(base_batch_size=32)
