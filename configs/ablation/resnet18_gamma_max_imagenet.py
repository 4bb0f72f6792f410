_base_ = '../imagenet/resnet18_rebnn_two_stage_imagenet.py'

# The paper's table on gamma, largest gradient of the channel alone: top-1 66.3, top-5 86.2 (the paper's numbers).
model = dict(backbone=dict(conv_cfg=dict(gamma='max', gamma_bounds=(1e-5, 2e-4))))
