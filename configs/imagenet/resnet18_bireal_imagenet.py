_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bireal.py',
]

# The paper's ImageNet table, Bi-Real Net ResNet-18: top-1 56.4, top-5 79.5 (the paper's numbers).
# The schedule and the label smoothing of the authors' PyTorch code, from scratch. The paper itself starts from a
# full-precision network in three steps (Caffe). Their colour jitter of 0.1 in [0, 1] units on 8-bit images does next
# to nothing and is left out.
model = dict(
    backbone=dict(block='bireal', conv_cfg=_base_.binary),
    head=dict(loss=dict(_delete_=True, type='LabelSmoothLoss', label_smooth_val=0.1, num_classes=1000)),
)
