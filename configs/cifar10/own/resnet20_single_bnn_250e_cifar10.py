_base_ = [
    '../../_base_/models/resnet20_single_cifar.py',
    '../../_base_/datasets/cifar10.py',
    '../../_base_/schedules/cifar10_200e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/bnn.py',
]

# The schedule of BNN's PyTorch code for its residual network, which has five times the usual channels and no published
# accuracy. The code names the steps but no end; 250 epochs are ours.
model = dict(backbone=dict(base_channels=80, conv_cfg=_base_.binary), head=dict(in_channels=320))
optim_wrapper = dict(optimizer=dict(_delete_=True, type='Adam', lr=5e-3))
param_scheduler = [
    dict(type='MultiStepLR', by_epoch=True, milestones=[101], gamma=0.2),
    dict(type='MultiStepLR', by_epoch=True, milestones=[142], gamma=0.5),
    dict(type='MultiStepLR', by_epoch=True, milestones=[184], gamma=0.2),
    dict(type='MultiStepLR', by_epoch=True, milestones=[220], gamma=0.1),
]
train_cfg = dict(max_epochs=250)
