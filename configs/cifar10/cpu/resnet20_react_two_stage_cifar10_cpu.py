_base_ = [
    '../../_base_/models/resnet20_cifar_taught.py',
    '../../_base_/cifar10_cpu.py',
    '../../_base_/methods/react.py',
]

# Stage 2 of two: ReActNet from the weights of the first stage.
model = dict(backbone=dict(conv_cfg=_base_.binary))
load_from = 'work_dirs/resnet20_react_stage1_cifar10_cpu/epoch_10.pth'
