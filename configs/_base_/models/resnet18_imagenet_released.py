# The ResNet-18 that several released codes share: a clipped stem, strided shortcuts, BN before the classifier.
# For their checkpoints; the paper's rows have the structure of resnet18_imagenet_binary.py.
_base_ = './resnet18_imagenet_binary.py'

model = dict(
    backbone=dict(block=dict(type='hardtanh', downsample='strided'), stem_act=dict(type='Clip', min=-1.0, max=1.0)),
    neck=dict(_delete_=True, type='FlattenNeck', pool=True, norm_channels=512),
)
