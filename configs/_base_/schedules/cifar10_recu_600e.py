# ReCU's recipe for CIFAR-10: 600 epochs at batch 256, weight decay 5e-4.
_base_ = './cifar10_200e.py'

optim_wrapper = dict(optimizer=dict(weight_decay=5e-4))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=True, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=600, T_max=595, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=600)
auto_scale_lr = dict(base_batch_size=256)
