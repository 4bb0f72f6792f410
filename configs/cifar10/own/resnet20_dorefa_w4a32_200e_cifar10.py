_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10.py',
    '../../_base_/schedules/cifar10_200e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/dorefa_w4a4.py',
]

# DoReFa-Net with four-bit weights and real inputs: 91.46 % in zzzxxxttt/pytorch_DoReFaNet (that project's number),
# from which the schedule comes. The paper itself has no CIFAR-10.
model = dict(
    backbone=dict(block='plain_cifar', stem_act=dict(type='ReLU'), conv_cfg=dict(_base_.binary, activation=None))
)
param_scheduler = [dict(type='MultiStepLR', by_epoch=True, milestones=[100, 150, 180], gamma=0.1)]
