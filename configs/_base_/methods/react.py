# ReActNet (Liu et al. 2020): Bi-Real Net's weights, a learnable threshold per input channel.
binary = dict(type='ReActConv2d')
custom_hooks = [dict(type='BinaryHook')]
