# XNOR-Net (Rastegari et al. 2016): scale mean(|w|) per filter; filters are centred and clamped after each step.
binary = dict(type='XNORConv2d')
custom_hooks = [dict(type='BinaryHook')]
