_base_ = [
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bnn.py',  # for the last stage, whose layers are BNN's
]

# Real-to-Binary, stage 1 of three: a full-precision network of the last one's structure, with tanh in place of signs,
# and a full-precision ResNet-18, here torchvision's, as teacher. Stages, losses and schedule are Larq Zoo's: Adam 1e-3
# at batch 256 over 75 epochs, five of them a warm-up, times 0.3 after epochs 40, 60 and 70; weight decay 1e-5. The
# distance of maps is Zagoruyko and Komodakis' with the weight 1; Larq Zoo's weight of 30 is for another one (each map
# divided by its maximum, squares, means over positions and blocks).
model = dict(
    type='rebnn_mm.TeacherStudentClassifier',
    backbone=dict(
        type='BinaryResNet',
        depth=18,
        block='real_to_binary',
        stem_act=dict(type='PReLU', num_parameters=64),
        out_indices=(3,),
        conv_cfg=None,
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead', num_classes=1000, in_channels=512, loss=dict(type='CrossEntropyLoss'), topk=(1, 5)
    ),
    teacher='mmpretrain::resnet/resnet18_8xb32_in1k.py',
    teacher_checkpoint='torchvision://resnet18',
    teacher_loss=dict(type='DistributionLoss', loss_weight=3.0),
    label_weight=1.0,
    losses=[
        dict(
            type='AttentionTransferLoss',
            modules=[f'backbone.layer{stage}.{block}' for stage in (1, 2, 3, 4) for block in (0, 1)],
        )
    ],
)
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor',
    optimizer=dict(type='Adam', lr=1e-3, weight_decay=1e-5),
    paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=False))),  # the recipe moves signs as it is
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=True, begin=0, end=5, convert_to_iter_based=True),
    dict(type='MultiStepLR', milestones=[40, 60, 70], gamma=0.3, by_epoch=True),
]
train_cfg = dict(by_epoch=True, max_epochs=75, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=256)
