_base_ = './resnet20_reste_1000e_cifar10.py'

# The same with one shortcut for two convolutions: 86.75 % (ReSTE's number).
model = dict(backbone=dict(block='reste_single'))
