_base_ = '../imagenet/resnet18_rebnn_two_stage_imagenet.py'

# The paper's table on gamma, share of flips times largest gradient (Eq. 14): top-1 66.9, top-5 87.1 (the paper's
# numbers). The same as ../imagenet/resnet18_rebnn_two_stage_imagenet.py, which gives all seven rows start and teacher.
# The table's 1e-3 and 1e-2 still train well there; here 1e-3 all but freezes the signs.
# Mind the units. In the paper's released code the gradient of the task reaches the latent weights 50 times too strong
# (a factor of 0.02 is missing), so under Adam a gamma printed as 1e-4 acts as 2e-6 here, and the bounds 1e-5 and 2e-4
# as 2e-7 and 4e-6. These configs take the printed numbers at their word; to try the other reading, divide by 50.
model = dict(backbone=dict(conv_cfg=dict(gamma='adaptive', gamma_bounds=(1e-5, 2e-4))))
