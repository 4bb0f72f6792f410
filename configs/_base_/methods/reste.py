# ReSTE (Wu et al. 2023): one scale per layer, an estimator of a power that rises from 1 to 3 over training.
binary = dict(type='ReSTEConv2d')
custom_hooks = [dict(type='BinaryHook')]
