# OvSW (Xiang et al. 2024): gradients of slow filters are scaled up, silent weights are drawn towards 0. Both values
# are those of its ResNet-20 on CIFAR-10; its ImageNet scripts have 0.01 and 2e-5.
binary = dict(type='OvSWConv2d', weight=dict(type='OvSWWeight', ratio=0.04, decay=9e-4))
custom_hooks = [dict(type='BinaryHook')]
normalizes = True
