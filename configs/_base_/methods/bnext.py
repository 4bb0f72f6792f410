# BNext (Guo et al. 2022): weights that are clamped lines at first and harden into signs, for its own network.
binary = dict(type='BNextConv2d')
custom_hooks = [dict(type='BinaryHook')]
