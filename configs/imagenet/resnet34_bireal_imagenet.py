_base_ = './resnet18_bireal_imagenet.py'

# The paper's ImageNet table, Bi-Real Net ResNet-34: top-1 62.2, top-5 83.9 (the paper's numbers).
model = dict(backbone=dict(depth=34))
