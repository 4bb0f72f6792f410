_base_ = '../imagenet/resnet18_rebnn_two_stage_imagenet.py'

# The paper's table on gamma, constant 0: top-1 65.8, top-5 86.3 (the paper's numbers).
model = dict(backbone=dict(conv_cfg=dict(gamma=0)))
