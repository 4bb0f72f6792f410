_base_ = [
    '../../_base_/models/resnet18_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_recu_600e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/siman.py',
]

# SiMaN's ResNet-18 with one shortcut for two convolutions: 92.5 % (SiMaN's number). Its 1x1 shortcuts are binary.
model = dict(backbone=dict(block='single', stem_act=dict(type='Clamp'), conv_cfg=_base_.binary))
optim_wrapper = dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(decay_mult=0))))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=True, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=400, T_max=395, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=400)
