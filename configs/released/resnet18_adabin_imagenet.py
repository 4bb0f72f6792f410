_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_sgd_200e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/adabin.py',
]

# AdaBin's ResNet-18: top-1 63.1, top-5 84.3 (the authors' number), after 120 epochs at batch 256, weight decay 1e-5.
model = dict(
    backbone=dict(
        block=dict(type='adabin', downsample='pooled'),
        stem_act=dict(type='Maxout', channels=64),
        conv_cfg=_base_.binary,
    ),
    neck=dict(_delete_=True, type='FlattenNeck', pool=True, norm_channels=512),
)
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(weight_decay=1e-5))
param_scheduler = dict(T_max=120, end=120)
train_cfg = dict(max_epochs=120)
auto_scale_lr = dict(base_batch_size=256)
