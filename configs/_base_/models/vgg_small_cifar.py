# VGG-small: six convolutions without shortcuts. Real: the first convolution and the classifier.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='BinaryVGGSmall', block='hardtanh'),
    neck=dict(type='FlattenNeck'),
    head=dict(type='LinearClsHead', num_classes=10, in_channels=512 * 4 * 4, loss=dict(type='CrossEntropyLoss')),
)
