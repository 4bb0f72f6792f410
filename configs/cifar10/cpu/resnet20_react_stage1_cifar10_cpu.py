_base_ = [
    '../../_base_/models/resnet20_cifar_taught.py',
    '../../_base_/cifar10_cpu.py',
    '../../_base_/methods/react.py',
]

# Stage 1 of two: real weights, binary inputs (W32A1).
model = dict(backbone=dict(conv_cfg=dict(_base_.binary, weight=None)))
