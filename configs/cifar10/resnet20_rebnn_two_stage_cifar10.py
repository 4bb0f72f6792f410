_base_ = [
    '../_base_/models/resnet20_cifar_taught.py',
    '../_base_/cifar10_two_stage_200e.py',
    '../_base_/methods/rebnn.py',
]

# Stage 2 of two: ReBNN from the weights of the first stage.
model = dict(backbone=dict(conv_cfg=_base_.binary))
load_from = 'work_dirs/resnet20_react_stage1_cifar10/epoch_200.pth'
