_base_ = './resnet18_classes.py'

# The start of the tiny one-stage detector's teacher: its backbone, with real weights, learns all 200 classes of
# Tiny-ImageNet from soft labels, which lab/tools/soft_labels.py writes. Channels are BGR, as in the detector.
max_epochs = 12
images = dict(data_root='data/tinyimagenet200')
model = dict(
    backbone=dict(
        _delete_=True,
        type='OneBitBackbone',
        channels=(64, 128, 256, 256),
        depths=(2, 4, 4, 2),
        out_indices=(3,),
        conv_cfg=None,
    ),
    data_preprocessor=dict(mean=[103.53, 116.28, 123.675], std=[57.375, 57.12, 58.395], to_rgb=False),
    head=dict(num_classes=200, in_channels=256),
)
train_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='mmpretrain.BaseDataset',
        ann_file='train_soft.pkl',
        data_prefix=dict(img_path='train'),
        pipeline=_base_.train_dataloader.dataset.pipeline,
        **images,
    )
)
val_dataloader = dict(batch_size=250, dataset=images)
test_dataloader = val_dataloader
optim_wrapper = dict(type='Bfloat16OptimWrapper', optimizer=dict(lr=2e-3))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=200),
    dict(type='CosineAnnealingLR', by_epoch=True, T_max=max_epochs, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=max_epochs, val_interval=2)
custom_hooks = [dict(type='CompileHook', part='backbone')]
default_hooks = dict(logger=dict(interval=50), checkpoint=dict(interval=1, max_keep_ckpts=2))
