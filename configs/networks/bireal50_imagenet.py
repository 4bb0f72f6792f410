_base_ = [
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bireal.py',
]

# Bi-Real-50: top-1 62.6, top-5 83.9 (the authors' number). Their recipe: from scratch, Adam 5e-4 at batch 256,
# linearly to 0 over 256 epochs, label smoothing.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='BinaryBottleneckResNet', depth=50, block='bireal', out_indices=(3,), conv_cfg=_base_.binary),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=2048,
        loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1, num_classes=1000),
        topk=(1, 5),
    ),
)
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4))
auto_scale_lr = dict(base_batch_size=256)
