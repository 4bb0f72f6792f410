# FDA-BNN (Xu et al. 2021): sine series as estimator, noise adaptation that fades out over training.
binary = dict(type='FDAConv2d')
custom_hooks = [dict(type='BinaryHook')]
