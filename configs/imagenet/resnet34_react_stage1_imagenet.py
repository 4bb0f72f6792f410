_base_ = './resnet18_react_stage1_imagenet.py'

# Stage 1 of two for ResNet-34.
model = dict(backbone=dict(depth=34))
