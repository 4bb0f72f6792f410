_base_ = [
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bnn.py',  # its hook; the layers are the network's own form of it
]

# MeliusNet-22: top-1 63.6, top-5 84.7 (the authors' list of results), from scratch by RAdam 2e-3 on a cosine over 120
# epochs. The batch of 256 is ours.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='MeliusNet', depth=22, out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead', num_classes=1000, in_channels=512, loss=dict(type='CrossEntropyLoss'), topk=(1, 5)
    ),
)
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(type='RAdam', lr=2e-3))
param_scheduler = dict(_delete_=True, type='CosineAnnealingLR', T_max=120, by_epoch=True, convert_to_iter_based=True)
train_cfg = dict(max_epochs=120)
auto_scale_lr = dict(base_batch_size=256)
