_base_ = [
    '../../_base_/models/resnet18_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_recu_600e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/biper.py',
]

# Stage 1 of two of BiPer's ResNet-18 with one shortcut for two convolutions: the sine as weight. Its shortcuts have no
# parameters.
sine = dict(type='BiPerSine', omega=20, penalty=0.037)
model = dict(
    backbone=dict(block='single', stem_act=dict(type='Clamp'), conv_cfg=dict(_base_.binary, weight=sine)),
)
optim_wrapper = dict(optimizer=dict(lr=0.021, weight_decay=1.6e-3))
