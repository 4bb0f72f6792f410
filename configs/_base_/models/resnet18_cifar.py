# ResNet-18 with CIFAR's stem; the block as in resnet20_cifar.py. Real: stem, shortcuts, classifier.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='BinaryResNet', depth=18, block='react', stem='cifar', out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=10, in_channels=512, loss=dict(type='CrossEntropyLoss')),
)
