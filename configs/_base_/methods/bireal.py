# Bi-Real Net (Liu et al. 2018): scale mean(|w|) per filter, quadratic estimator for the inputs.
binary = dict(type='BiRealConv2d')
custom_hooks = [dict(type='BinaryHook')]
