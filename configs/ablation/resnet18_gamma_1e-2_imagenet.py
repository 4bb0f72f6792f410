_base_ = '../imagenet/resnet18_rebnn_two_stage_imagenet.py'

# The paper's table on gamma, constant 1e-2: top-1 65.9, top-5 86.5 (the paper's numbers).
model = dict(backbone=dict(conv_cfg=dict(gamma=1e-2)))
