_base_ = './resnet18_classes.py'

# The blocks of the 1-bit networks with real weights and real inputs: the start of a teacher, and so of its student.
model = dict(backbone=dict(_delete_=True, type='BinaryResNet', depth=18, out_indices=(3,), conv_cfg=None))
