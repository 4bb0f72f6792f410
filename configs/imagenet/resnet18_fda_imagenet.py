_base_ = [
    '../_base_/models/resnet18_imagenet_taught.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/fda.py',
]

# The paper's ImageNet table, FDA-BNN ResNet-18, two-stage: top-1 65.8, top-5 86.4 (the paper's numbers).
# No training code or recipe of FDA-BNN is public; the paper lists it among two-stage methods, so it gets their recipe.
model = dict(backbone=dict(conv_cfg=_base_.binary))
load_from = 'work_dirs/resnet18_react_stage1_imagenet/epoch_256.pth'
