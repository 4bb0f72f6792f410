# ReCU (Xu et al. 2021): the largest weights are clamped to a quantile, which rises from 0.85 to 0.99 over training.
binary = dict(type='ReCUConv2d')
custom_hooks = [dict(type='BinaryHook')]
normalizes = True
