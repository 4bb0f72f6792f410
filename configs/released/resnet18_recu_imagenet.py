_base_ = [
    '../_base_/models/resnet18_imagenet_released.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_sgd_200e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/recu.py',
]

# ReCU's released ResNet-18, one stage: top-1 60.98, top-5 82.57 (the authors' number).
model = dict(backbone=dict(conv_cfg=_base_.binary))
