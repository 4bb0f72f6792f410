_base_ = './resnet18_rebnn_two_stage_imagenet.py'

# The paper's ImageNet table, ReBNN ResNet-34, two-stage: top-1 69.9, top-5 88.9 (the paper's numbers).
model = dict(backbone=dict(depth=34))
load_from = 'work_dirs/resnet34_react_stage1_imagenet/epoch_256.pth'
