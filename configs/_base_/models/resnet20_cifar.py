# ResNet-20 for CIFAR (He et al. 2016) with one shortcut per convolution, in ReActNet's block:
# its shift and its RPReLU are there for every method alike. Real: stem, shortcuts, classifier. A config adds what the
# 3x3 convolutions are: conv_cfg. Bi-Real Net's differ from ReActNet's in that shift only, so here they are the same.
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='BinaryResNet',
        depth=20,
        block='react',
        stem='cifar',
        base_channels=16,
        num_stages=3,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(2,),
        # Small latent weights, as torch itself starts a convolution: after batch norm their size says only how soon
        # an optimizer turns signs. The backbone's own start is 2.4 times as large.
        init_cfg=dict(
            type='Kaiming',
            layer=['Conv2d', 'BinaryConv2d'],
            a=5**0.5,
            mode='fan_in',
            nonlinearity='leaky_relu',
            distribution='uniform',
        ),
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=10, in_channels=64, loss=dict(type='CrossEntropyLoss')),
)
