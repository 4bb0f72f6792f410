# RBNN's recipe for CIFAR-10: 1000 epochs at batch 256.
_base_ = './cifar10_200e.py'

param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=True, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=1000, T_max=995, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=1000)
auto_scale_lr = dict(base_batch_size=256)
