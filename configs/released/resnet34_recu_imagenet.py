_base_ = './resnet18_recu_imagenet.py'

# ReCU's released ResNet-34, one stage: top-1 65.10, top-5 85.78 (the authors' number).
model = dict(backbone=dict(depth=34))
