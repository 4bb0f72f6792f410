# A backbone's start: a classifier of small images, sized for two CPU cores. In data/classes/train and data/classes/val
# is one folder for each class, what torchvision calls an ImageFolder; model.head.num_classes is their number.
_base_ = 'mmpretrain::_base_/default_runtime.py'

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
max_epochs = 30
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=18, out_indices=(3,)),  # mmdet's: the start of a full-precision counterpart
    data_preprocessor=dict(
        type='ClsDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        to_rgb=True,
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead',
        num_classes=50,
        in_channels=512,
        loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1),
    ),
)
train_dataloader = dict(
    batch_size=128,
    num_workers=0,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type='CustomDataset',
        data_root='data/classes',
        data_prefix='train',
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='RandomResizedCrop', scale=64, crop_ratio_range=(0.25, 1.0)),
            dict(type='RandomFlip', prob=0.5, direction='horizontal'),
            dict(type='PackInputs'),
        ],
    ),
)
val_dataloader = dict(
    batch_size=128,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type='CustomDataset',
        data_root='data/classes',
        data_prefix='val',
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='Resize', scale=(64, 64)),
            dict(type='PackInputs'),
        ],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type='Accuracy', topk=(1,))
test_evaluator = val_evaluator
optim_wrapper = dict(optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=100),
    dict(type='CosineAnnealingLR', by_epoch=True, T_max=max_epochs, convert_to_iter_based=True),
]
train_cfg = dict(by_epoch=True, max_epochs=max_epochs, val_interval=10)
val_cfg = dict()
test_cfg = dict()
default_hooks = dict(logger=dict(interval=78), checkpoint=dict(interval=10, max_keep_ckpts=1))
