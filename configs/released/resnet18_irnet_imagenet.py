_base_ = [
    '../_base_/models/resnet18_imagenet_released.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_sgd_200e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/irnet.py',
]

# IR-Net's ResNet-18: top-1 58.1, top-5 80.0 (the authors' number). They released the network and no weights.
model = dict(backbone=dict(conv_cfg=_base_.binary))
