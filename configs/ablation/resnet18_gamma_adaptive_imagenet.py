_base_ = '../_base_/models/resnet18_imagenet_gamma_ablation.py'

# The paper's table on gamma, share of flips times largest gradient (Eq. 14): top-1 66.9, top-5 87.1 (the paper's
# numbers). The same as resnet18_rebnn_two_stage_imagenet.py.
model = dict(backbone=dict(conv_cfg=dict(gamma='adaptive', gamma_bounds=(1e-5, 2e-4))))
