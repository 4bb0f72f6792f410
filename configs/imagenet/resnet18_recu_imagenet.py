_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_sgd_200e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/recu.py',
]

# The paper's ImageNet table, ReCU ResNet-18, one-stage: top-1 61.0, top-5 82.6 (the paper's numbers).
# ReCU's recipe is the one the paper takes over, with a warm-up over 5 epochs, and crops drawn up to 1.25 of the image,
# of which those that fit are taken. Its colour jitter, its batch norm before the classifier and the start of all norms
# at 1e-8 are left out, as for RBNN.
model = dict(backbone=dict(block='hardtanh', conv_cfg=_base_.binary))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=True, begin=0, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=195, by_epoch=True, begin=5, end=200),
]
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=224, crop_ratio_range=(0.08, 1.25)),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
