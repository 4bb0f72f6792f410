_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bidet.py',
]

# The classifier that BiDet's Faster R-CNN begins with. Its authors printed no accuracy of it, and neither how it was
# trained nor how its images were normalised: the schedule is Bi-Real Net's, the data are mmpretrain's.
model = dict(backbone=dict(block='bireal', conv_cfg=_base_.binary))
