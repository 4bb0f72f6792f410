_base_ = './resnet18_rebnn_imagenet.py'

# The paper's ImageNet table, ReBNN ResNet-34, one-stage: top-1 65.8, top-5 86.2 (the paper's numbers).
model = dict(backbone=dict(depth=34))
