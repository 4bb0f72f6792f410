_base_ = ['../../_base_/models/resnet20_cifar.py', '../../_base_/cifar10_200e.py']
custom_hooks = [dict(type='BinaryHook')]

# DoReFa-Net with four-bit weights and real inputs: 91.46 % in zzzxxxttt/pytorch_DoReFaNet (that project's number),
# from which the schedule comes. The paper itself has no CIFAR-10.
binary = dict(type='DoReFaConv2d', weight=dict(type='DoReFaWeight', bits=4), activation=None)
model = dict(backbone=dict(block='plain_cifar', stem_act=dict(type='ReLU'), conv_cfg=binary))
param_scheduler = [dict(type='MultiStepLR', by_epoch=True, milestones=[100, 150, 180], gamma=0.1)]
