# For ResNets whose method takes the sign of latent weights as they are. Where a method normalises them, the gradient
# grows as they shrink, and the common rate turns 0.2 to 1 % of the signs in a step; here it would turn 0.02 %.
_base_ = './cifar10_200e.py'

optim_wrapper = dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=True, lr_mult=10))))
