_base_ = [
    '../_base_/models/resnet18_imagenet_taught.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/recu.py',
]

# The paper's ImageNet table, ReCU ResNet-18, two-stage: top-1 66.4, top-5 86.5 (the paper's numbers).
# ReCU's script names a linear and a cosine decay; the later one, which its parser keeps, is the cosine.
model = dict(backbone=dict(conv_cfg=_base_.binary))
load_from = 'work_dirs/resnet18_react_stage1_imagenet/epoch_256.pth'
param_scheduler = dict(_delete_=True, type='CosineAnnealingLR', T_max=256, by_epoch=True, begin=0, end=256)
