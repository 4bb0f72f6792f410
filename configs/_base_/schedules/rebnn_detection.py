_base_ = './detection_12e.py'

# At the paper's rate, 0.008 for all weights, flips add up to less than half of the signs (lab/reports/flips.md).
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor', paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=4)))
)
