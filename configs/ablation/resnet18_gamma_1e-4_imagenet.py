_base_ = '../imagenet/resnet18_rebnn_two_stage_imagenet.py'

# The paper's table on gamma, constant 1e-4: top-1 66.4, top-5 86.7 (the paper's numbers).
model = dict(backbone=dict(conv_cfg=dict(gamma=1e-4)))
