_base_ = [
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bnn.py',  # its hook; the layers are the network's own form of it
]

# QuickNet: top-1 63.3, top-5 84.6 (Larq Zoo's number), after 600 epochs at batch 2048 with two optimizers: Adam 1e-2
# for binary weights, SGD 0.1 for the others, both on a cosine after a warm-up of 5 epochs. The schedule here is ours,
# that of the other networks.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='QuickNet', arch='base', out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead', num_classes=1000, in_channels=512, loss=dict(type='CrossEntropyLoss'), topk=(1, 5)
    ),
)
