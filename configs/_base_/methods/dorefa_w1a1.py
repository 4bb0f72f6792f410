# DoReFa-Net (Zhou et al. 2016) with one bit: weights are plus or minus one scale per layer, inputs are 0 or 1.
binary = dict(
    type='DoReFaConv2d',
    weight=dict(type='DoReFaWeight', bits=1),
    activation=dict(type='DoReFaActivation', bits=1),
)
custom_hooks = [dict(type='BinaryHook')]
