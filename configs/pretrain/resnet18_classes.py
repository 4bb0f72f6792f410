_base_ = '../_base_/pretrain_classes.py'

# mmdet's ResNet-18: the start of a full-precision counterpart.
model = dict(backbone=dict(type='ResNet', depth=18, out_indices=(3,)))
