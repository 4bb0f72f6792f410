# BNN (Courbariaux et al. 2016): two signs, no scale; latent weights are clipped to [-1, 1] after each step.
binary = dict(type='BNNConv2d')
custom_hooks = [dict(type='BinaryHook')]
