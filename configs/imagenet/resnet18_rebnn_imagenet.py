_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_sgd_200e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/rebnn.py',
]

# The paper's ImageNet table, ReBNN ResNet-18, one-stage: top-1 61.6, top-5 83.4 (the paper's numbers).
# The block is ReCU's, whose setting the paper follows in one stage; the text itself names no block.
model = dict(backbone=dict(block='hardtanh', conv_cfg=_base_.binary))
