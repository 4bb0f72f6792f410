# DoReFa-Net (Zhou et al. 2016) with four bits: the method's row in the detection tables.
binary = dict(
    type='DoReFaConv2d',
    weight=dict(type='DoReFaWeight', bits=4),
    activation=dict(type='DoReFaActivation', bits=4),
)
custom_hooks = [dict(type='BinaryHook')]
normalizes = True
