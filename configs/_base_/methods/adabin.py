# AdaBin (Tu et al. 2022): weights and inputs take two values each that adapt to them; the released form.
binary = dict(
    type='BinaryConv2d',
    weight=dict(type='AdaBinWeight'),
    activation=dict(type='AdaBinActivation', variant='official'),
)
custom_hooks = [dict(type='BinaryHook')]
