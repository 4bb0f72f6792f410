# IR-Net (Qin et al. 2020): filters are balanced and standardised, scales are powers of two, the estimator sharpens
# over training.
binary = dict(type='IRNetConv2d')
custom_hooks = [dict(type='BinaryHook')]
normalizes = True
