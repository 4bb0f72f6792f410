_base_ = './resnet18_biper_stage1_600e_cifar10.py'

# Stage 2 of two: the sine's sign, from the weights of stage 1. 93.75 % (BiPer's number).
model = dict(backbone=dict(conv_cfg=dict(weight=dict(type='BiPerWeight', penalty=0.0468))))
optim_wrapper = dict(optimizer=dict(lr=0.0037, weight_decay=1.6e-4))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=True, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=300, T_max=295, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=300)
load_from = 'work_dirs/resnet18_biper_stage1_600e_cifar10/epoch_600.pth'
