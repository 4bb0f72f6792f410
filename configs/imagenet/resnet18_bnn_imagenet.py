_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bnn.py',
]

# The paper's ImageNet table, BNN ResNet-18: top-1 42.2, top-5 67.1 (the paper's numbers).
# BNN's own paper has no ResNet on ImageNet: the numbers are from later papers, which give no recipe. The schedule is
# Bi-Real Net's, the block the ordinary one of a ResNet with one shortcut for two convolutions.
model = dict(backbone=dict(block='single', conv_cfg=_base_.binary))
