_base_ = [
    '../_base_/models/resnet18_imagenet_taught.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/rebnn.py',
]

# The paper's ImageNet table, ReBNN ResNet-18, two-stage: top-1 66.9, top-5 87.1 (the paper's numbers).
model = dict(backbone=dict(conv_cfg=_base_.binary))
load_from = 'work_dirs/resnet18_react_stage1_imagenet/epoch_256.pth'
