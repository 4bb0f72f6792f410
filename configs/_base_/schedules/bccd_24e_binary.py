# The schedule and budget of the full-precision counterparts. In its 1200 steps signs move at four times the rate; at
# that of all other weights most of them stay where their random start put them.
_base_ = './bccd_24e.py'

optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor', paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=4)))
)
