_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_larq_zoo.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/bireal.py',
]

# Larq Zoo's Bi-Real Net ResNet-18, trained by them, with Keras' padding: top-1 57.47, top-5 79.84 (Larq Zoo's number).
model = dict(backbone=dict(block='bireal', stem='keras', conv_cfg=dict(pad_end=True, **_base_.binary)))
