_base_ = './resnet18_recu_imagenet.py'

# The paper's ImageNet table, ReCU ResNet-34, one-stage: top-1 65.1, top-5 85.8 (the paper's numbers).
model = dict(backbone=dict(depth=34))
