_base_ = [
    '../_base_/datasets/imagenet_larq_zoo.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bnn.py',  # its hook; the layers are the network's own form of it
]

# Larq Zoo's QuickNet with Keras' padding and their test pipeline: top-1 63.3, top-5 84.6 (Larq Zoo's number). The
# schedule is ours.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='QuickNet', arch='base', stem_cfg=dict(type='Conv2dAdaptivePadding'), out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead', num_classes=1000, in_channels=512, loss=dict(type='CrossEntropyLoss'), topk=(1, 5)
    ),
)
