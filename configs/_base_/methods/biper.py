# BiPer (Vargas et al. 2024): weights are a square wave of the latent weight, with the gradient of a sine. Its first
# stage has the sine itself as weight: weight=dict(type='BiPerSine').
binary = dict(type='BiPerConv2d')
custom_hooks = [dict(type='BinaryHook')]
normalizes = True
