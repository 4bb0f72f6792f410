# The ResNet-20 that IR-Net and ReCU share but for its shortcuts: a clipped stem, BN before the classifier.
_base_ = './resnet20_cifar.py'

model = dict(
    backbone=dict(
        block=dict(_delete_=True, type='hardtanh', downsample='padded'),
        stem_act=dict(type='Clip', min=-1.0, max=1.0),
    ),
    neck=dict(_delete_=True, type='FlattenNeck', pool=True, norm_channels=64),
)
