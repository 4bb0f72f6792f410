_base_ = [
    '../_base_/datasets/imagenet_bs128_bnext.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bnext.py',
]

# BNext-T: top-1 72.4 (the authors' number). Their recipe: AdamW 1e-3 at batch 512 over 512 epochs, a cosine after a
# warm-up, gradients clipped at 5, weight decay 1e-3 and next to none on binary weights. They have two teachers,
# EfficientNet-B0 and B2, weighed by how sure each is; here it is B0 alone, with mmpretrain's weights.
# Binary weights keep their plain rate: they are kept within 1.5 and harden by themselves.
model = dict(
    type='rebnn_mm.TeacherStudentClassifier',
    backbone=dict(type='BNext', arch='tiny', out_indices=(4,), conv_cfg=_base_.binary),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead', num_classes=1000, in_channels=1024, loss=dict(type='CrossEntropyLoss'), topk=(1, 5)
    ),
    teacher='mmpretrain::efficientnet/efficientnet-b0_8xb32_in1k.py',
    teacher_checkpoint='https://download.openmmlab.com/mmclassification/v0/efficientnet/'
    'efficientnet-b0_3rdparty_8xb32_in1k_20220119-a7e2a0b1.pth',
    teacher_loss=dict(type='DistributionLoss'),
)
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=1e-3),
    clip_grad=dict(max_norm=5.0),
    paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=False, decay_mult=1e-5))),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=True, begin=0, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=507, by_epoch=True, begin=5, end=512),
]
train_cfg = dict(by_epoch=True, max_epochs=512, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=512)
