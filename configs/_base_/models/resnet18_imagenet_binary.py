# The structure of the paper's ResNet-18: every 3x3 convolution is binary; stem, shortcuts and classifier are real.
# A row chooses the convolution and the block style.
_base_ = 'mmpretrain::_base_/models/resnet18.py'

model = dict(backbone=dict(_delete_=True, type='BinaryResNet', depth=18, out_indices=(3,)))
